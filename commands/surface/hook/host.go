package hook

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/process"
)

// Host is an agent host, as seen by one process of `mailroom hook`.
type Host struct {
	*agenthost.Host
	Program string // absolute path of the host's program; "" if unknown
	// Elsewhere is the transcript of a host on another machine, whose process is not visible here. It is nil if the
	// host is here.
	Elsewhere hosts.Transcript
	Quiet     *Quiet // notes on sessions with nothing to show; nil: no notes
}

// Find returns the host with a name, or nil if there is none.
func Find(name string) *Host {
	if h := agenthost.Find(name); h != nil {
		return &Host{Host: h}
	}
	return nil
}

// kindOf returns the kind of an event, or "" for an event without effect.
func (h *Host) kindOf(event string, input *Input) hosts.Kind {
	kind := h.Kind(event)
	if kind == hosts.Prompted {
		return h.prompted(input.Prompt)
	}
	return kind
}

// prompted returns the kind of a prompt, which may not be the user's. It returns "" for a prompt without effect.
func (h *Host) prompted(prompt string) hosts.Kind {
	prompt = strings.TrimSpace(prompt)
	if h.OwnKind != "" && ourNudge().MatchString(prompt) {
		return h.OwnKind
	}
	for _, other := range h.Prompts {
		if strings.HasPrefix(prompt, other.Begins) && (other.Begins != "" || prompt == "") {
			return other.Kind
		}
	}
	return hosts.Prompted
}

// Caller returns the agent as which a process started by the host acts: the caller of env or, for orchestrator.Auto,
// the agent of the host's process. It returns invalid_params for a host whose sessions share a process or that is on
// another machine, and unavailable if the host's process cannot be found.
func (h *Host) Caller(ctx context.Context, env commands.Env) (agent string, err error) {
	if env.Caller.Name != orchestrator.Auto {
		return env.Caller.Name, nil
	}
	if h.Shares() {
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"the agent `auto` does not work with %s, because all sessions of %[1]s share a process", h.Name).
			WithHint("Name an agent")
	}
	if h.Elsewhere != nil {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, agenthost.AutoElsewhere).WithHint("Name an agent")
	}
	if err := trusted(ctx, env); err != nil {
		return "", err
	}
	of := h.process()
	if of.PID == 0 {
		return "", orchestrator.Errorf(orchestrator.Unavailable,
			"the agent `auto` requires a session of %s, but %[1]s did not start this process",
			h.Name).
			WithHint("Name an agent")
	}
	return hosts.NameOf(ctx, env.Ledger, hosts.Holder{Program: h.Name, Process: of, Words: process.Words(of.PID)})
}

// process returns the host's process, an ancestor of this one. It returns process.None if the process is unknown or
// proves nothing.
func (h *Host) process() process.ID {
	if h.Unproved || h.Elsewhere != nil {
		return process.None()
	}
	return h.Process()
}

// mustJSON returns an answer as a line of JSON.
func mustJSON(v any) []byte {
	text, err := orchestrator.JSON(v)
	if err != nil {
		panic(err) // cannot happen: the answer has only strings and booleans
	}
	return append(text, '\n')
}
