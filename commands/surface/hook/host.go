package hook

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/pattern"
	"mailroom/orchestrator/process"
)

// Host is an agent host: which events its hooks tell of, and in which form it takes an answer.
type Host struct {
	Name    string
	Events  map[string]hosts.Kind // by the host's own names
	Program string                // where it lies, an absolute path; "" is not known
	Quiet   *Quiet                // what is kept of sessions for which there is nothing; nil: every hook looks

	nothing  string  // what it takes for an answer without anything to show
	nudges   []nudge // prompts that are not its user's
	unproved bool    // its process outlives the session, and proves nothing
	shows    bool    // what it is answered at the end of a turn it shows to its user
	streams  bool    // a plugin takes what a Stream writes, and tells what becomes of it
	forgets  bool    // what it is answered when a session starts is not restored when the session is resumed
	bytes    bool    // it counts the bytes of an answer, others its UTF-16 units
	late     bool    // its transcript may never have what was shown, and yet its model has it
	form     func(event, text string) []byte
	speaks   func(line *entry) bool // whether an entry of its transcript is what the model has said
	asks     func(line *entry) bool // whether one is what its user has said; nil if it cannot be told

	// parts are the files in which a session's transcript stands, of which it names one, in their order; nil is that
	// one.
	parts func(path string) []string
	// drops reports whether an entry of its transcript is left out when the session is resumed; nil is none.
	drops func(line *entry) bool

	// endsByItself reports whether the host, run by this command line, ends after its answer, so that there is nothing
	// to wake; nil if a process in the background cannot wake it.
	endsByItself func(words []string) bool

	// queue is the command, after the host's program, that gives a session a prompt as soon as it is idle; nil if the
	// host has none.
	queue   func(session, prompt string) []string
	dismiss []byte // what it takes for an answer to a prompt of ours without anything to show, so that no turn begins
}

// nudge tells a prompt that is not the user's.
type nudge struct {
	is   func() *regexp.Regexp
	kind hosts.Kind // of the event
}

// Hosts are the hosts that Mailroom knows.
var Hosts = []*Host{&claude, &codex, &gemini, &opencode}

// Find returns the host of a name; nil if there is none.
func Find(name string) *Host {
	if i := slices.IndexFunc(Hosts, func(h *Host) bool { return h.Name == name }); i >= 0 {
		return Hosts[i]
	}
	return nil
}

var claude = Host{
	Name: "claude",
	Events: map[string]hosts.Kind{
		"SessionStart": hosts.Started, "UserPromptSubmit": hosts.Prompted, "PostToolUse": hosts.Worked,
		"PostToolUseFailure": hosts.Worked,
		"Stop":               hosts.Stopped, "SessionEnd": hosts.Ended,
	},
	nudges: []nudge{{pattern.New(`^<task-notification>`), hosts.Woken}},
	form: func(event, text string) []byte {
		return mustJSON(map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": event,
			"additionalContext": text}, "suppressOutput": true})
	},
	// Claude writes words of its own in the model's name, when that has failed or a session goes on.
	speaks: func(line *entry) bool { return line.Type == "assistant" && line.Message.Model != "<synthetic>" },
	asks: func(line *entry) bool {
		return line.Type == "user" && !bytes.Contains(line.Message.Content, []byte(`"type":"tool_result"`))
	},
	endsByItself: claudePrints,
}

var codex = Host{
	Name: "codex",
	Events: map[string]hosts.Kind{
		"SessionStart": hosts.Started, "UserPromptSubmit": hosts.Prompted, "PostToolUse": hosts.Worked,
		"Stop": hosts.Stopped,
	},
	nudges:   []nudge{{ourNudge, hosts.Rested}},
	bytes:    true,
	unproved: true, // its daemon runs the sessions of terminals that are closed
	form:     blocksAt("Stop"),
	// A running session looks into its queue, after ten seconds at the latest.
	queue: func(session, prompt string) []string {
		return []string{"queue", "--thread=" + session, "--message=" + prompt}
	},
	dismiss: mustJSON(map[string]string{"decision": "block",
		"reason": "mailroom: the messages were read meanwhile."}),
	endsByItself: func(words []string) bool { return slices.Contains(words, "exec") || slices.Contains(words, "e") },
	speaks: func(line *entry) bool {
		p := line.Payload
		return line.Type == "response_item" &&
			(p.Type == "message" && p.Role == "assistant" || strings.HasSuffix(p.Type, "_call"))
	},
	asks: func(line *entry) bool { return line.Type == "response_item" && line.Payload.Role == "user" },
}

// opencode is OpenCode. It runs no hooks but plugins, of which ours keeps a Stream running.
var opencode = Host{Name: "opencode", streams: true}

// prompted returns of which kind a prompt is: the user's, or not.
func (h *Host) prompted(prompt string) hosts.Kind {
	for _, n := range h.nudges {
		if n.is().MatchString(strings.TrimSpace(prompt)) {
			return n.kind
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
			"the agent auto: sessions of %s share a process, so they cannot be told apart", h.Name).
			WithHint("Name an agent")
	}
	if err := trusted(ctx, env); err != nil {
		return "", err
	}
	of := h.process()
	if of.PID == 0 {
		return "", orchestrator.Errorf(orchestrator.Unavailable,
			"the agent auto: this was not started by %s, so there is no session to which the agent could belong",
			h.Name).
			WithHint("Name an agent")
	}
	return hosts.NameOf(ctx, env.Ledger, hosts.Holder{Program: h.Name, Process: of, Words: process.Words(of.PID)})
}

// Shares reports whether several sessions of the host may run in one process.
func (h *Host) Shares() bool { return h.unproved || h.streams }

// process returns the host's process, an ancestor of this one; no process if it cannot be told or proves nothing.
func (h *Host) process() process.ID {
	if h.unproved {
		return process.None()
	}
	return agenthost.Process(h.Name)
}

// blocksAt is the form of a host that goes on with a turn only if its end, the event that is named, is blocked.
func blocksAt(end string) func(event, text string) []byte {
	return func(event, text string) []byte {
		if event == end {
			return mustJSON(map[string]string{"decision": "block", "reason": text})
		}
		return mustJSON(map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": event,
			"additionalContext": text}})
	}
}

// mustJSON returns an answer as a line of JSON.
func mustJSON(v any) []byte {
	text, err := orchestrator.JSON(v)
	if err != nil {
		panic(err) // strings and booleans only
	}
	return append(text, '\n')
}
