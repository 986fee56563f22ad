package cli

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"mailroom/commands/surface/mcp"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// Questions of `mailroom mcp` to the machine on which its host runs. All but the first are followed by an argument:
// the name of a host, or an agenthost.Refusal.
const (
	aroundQuestion    = "around"
	connectedQuestion = "connected "
	callTimeQuestion  = "call time "
	refusedQuestion   = "refused "
)

// farOwner returns the owner of tools that are served on another machine than the host's.
func farOwner(s *remote.Session, host string) (o mcp.Owner, callTime func(host string) time.Duration) {
	ask := func(question string, into any) error { // on an error, into stays zero, as if nothing were known
		text, err := s.Ask(question)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		return err
	}
	o = mcp.Owner{Host: host,
		IsConnected: func(host string) (is bool) {
			ask(connectedQuestion+host, &is)
			return is
		},
		Refused: func(r agenthost.Refusal) error {
			text, err := json.Marshal(r)
			if err == nil {
				_, err = s.Ask(refusedQuestion + string(text))
			}
			return err
		}}
	ask(aroundQuestion, &o.Around)
	return o, func(host string) (limit time.Duration) {
		ask(callTimeQuestion+host, &limit)
		return limit
	}
}

// ownerAnswers returns the function that answers the questions of farOwner.
func (p *Program) ownerAnswers(place string) func(question string) ([]byte, error) {
	var once sync.Once
	return func(question string) ([]byte, error) {
		host := question[strings.LastIndexByte(question, ' ')+1:]
		switch refusal, refused := strings.CutPrefix(question, refusedQuestion); {
		case question == aroundQuestion:
			return json.Marshal(agenthost.Around())
		case question == connectedQuestion+host:
			return json.Marshal(p.IsConnected != nil && p.IsConnected(host, false))
		case question == callTimeQuestion+host && p.CallTime != nil:
			return json.Marshal(p.CallTime(host))
		case refused:
			var r agenthost.Refusal
			err := json.Unmarshal([]byte(refusal), &r)
			once.Do(func() { // at most one file, to limit what another machine can write here
				r.Seen.By, r.Database = orchestrator.Clip(r.Seen.By), place
				if err == nil {
					err = p.refuses(r)
				}
			})
			return nil, err
		}
		return nil, errUnknown
	}
}
