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

// Host is an agent host, as one process of `mailroom hook` has it.
type Host struct {
	*agenthost.Host
	Program string // where it lies, an absolute path; "" is not known
	// Elsewhere is the transcript of a host on another machine, whose process this one cannot see; nil: the host is here
	Elsewhere hosts.Transcript
	Quiet     *Quiet // what is kept of sessions for which there is nothing; nil: every hook looks
}

// Find returns the host of a name; nil if there is none.
func Find(name string) *Host {
	if h := agenthost.Find(name); h != nil {
		return &Host{Host: h}
	}
	return nil
}

// kindOf returns of which kind an event is; "" means nothing.
func (h *Host) kindOf(event string, input *Input) hosts.Kind {
	kind := h.Kind(event)
	if kind == hosts.Prompted {
		return h.prompted(input.Prompt)
	}
	return kind
}

// prompted returns of which kind a prompt is: the user's, or not; "" means nothing.
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

// Caller returns as whom a process acts that the host has started: as the caller of env or, for orchestrator.Auto, as
// the agent of the host's process. Errors: invalid_params for a host whose sessions share a process; unavailable if the
// host's cannot be found.
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

// process returns the host's process, an ancestor of this one; no process if it cannot be told or proves nothing.
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
		panic(err) // texts and booleans only
	}
	return append(text, '\n')
}
