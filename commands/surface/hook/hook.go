// Package hook answers the hooks of agent hosts. Programs such as Claude Code run `mailroom hook EVENT` when
// something has happened in a session, with JSON on standard input, and pass the answer to their model. Source:
// hosts.md.
package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/process"
)

// Patience is how long a hook may wait for the database, while its host waits for the hook.
const Patience = time.Second

// maxInput is the maximum size of the description of an event, in bytes. It can contain the output of a tool.
const maxInput = 64 << 20

// maxSession is the maximum length of a session ID, in bytes.
const maxSession = 256

// Input is a host's description of an event. All hosts use these keys.
type Input struct {
	Session    string `json:"session_id"`
	Transcript string `json:"transcript_path"`
	Prompt     string `json:"prompt"`
	Subagent   string `json:"agent_id"`        // the subagent of the event; "" is the session itself
	Parent     string `json:"parent_agent_id"` // the session, if Session is the subagent
}

// named reports whether the event belongs to a session.
func (in *Input) named() bool { return in.Session != "" && len(in.Session) <= maxSession }

// Answer answers one event. It reads the host's JSON from in and writes the text for the host's model to out. If
// there is nothing to show, it writes the host's empty answer. Answer does not call open if h.Quiet has a note that
// there is nothing. The session is that of the caller of the environment that open returns.
//
// An error explains why nothing was shown. It must not reach the host: a hook never fails its host.
func (h *Host) Answer(ctx context.Context, open func() (commands.Env, error), event string, in io.Reader,
	out io.Writer) error {
	input, err := ReadInput(ctx, in)
	if err != nil {
		return h.Silent(out, fmt.Errorf("cannot read the event data from %s: %w", h.Name, err))
	}
	kind := h.kindOf(event, &input)
	if kind == "" && h.Kind(event) != "" {
		return h.Silent(out, nil)
	}
	note := h.Quiet.of(h, event, input)
	if note.holds(time.Now()) {
		return h.Silent(out, nil)
	}
	env, err := open()
	if err != nil {
		return h.Silent(out, err)
	}
	said, answer, err := h.answer(ctx, &env, event, kind, input)
	if err != nil || said == nil {
		if err == nil {
			note.keep(answer.Quiet)
		}
		return h.Silent(out, err)
	}
	if _, err = out.Write(said); err != nil {
		if back := hosts.GiveBack(context.WithoutCancel(ctx), env.Ledger, answer); back != nil {
			env.Log.Error("some messages could not be shown, and cannot be made unread again", "agent", env.Caller.Name, "error",
				back)
		}
		return err
	}
	if err = hosts.Written(context.WithoutCancel(ctx), env.Ledger, answer); err != nil {
		env.Log.Error("cannot record that messages were shown; they will be shown again", "agent", env.Caller.Name, "error", err)
	}
	return err
}

// Silent writes the host's empty answer and returns err.
func (h *Host) Silent(out io.Writer, err error) error {
	_, failure := io.WriteString(out, h.Nothing)
	return cmp.Or(err, failure)
}

// ReadInput reads a host's description of an event. It returns when ctx ends, even if the host never closes its
// output.
func ReadInput(ctx context.Context, in io.Reader) (input Input, err error) {
	type reading struct {
		input Input
		err   error
	}
	done := make(chan reading, 1)
	orchestrator.GoSafe("input of a hook", nil, func() {
		var r reading
		r.err = json.NewDecoder(io.LimitReader(in, maxInput)).Decode(&r.input)
		done <- r
	})
	select {
	case r := <-done:
		if r.input.Subagent == r.input.Session && r.input.Parent != "" {
			r.input.Session = r.input.Parent
		}
		return r.input, r.err
	case <-ctx.Done():
		return Input{}, context.Cause(ctx)
	}
}

// answer records an event and returns the text to write, or nil for nothing. kind is "" if the event is unknown.
// answer sets the caller of env.
func (h *Host) answer(ctx context.Context, env *commands.Env, event string, kind hosts.Kind, input Input) (said []byte,
	a *hosts.Answer, err error) {
	auto := env.Caller.Name == orchestrator.Auto
	agent, err := h.Caller(ctx, *env)
	if err != nil {
		return nil, nil, err
	}
	env.Caller.Name = agent
	if kind == "" || !input.named() {
		return nil, nil, orchestrator.Errorf(orchestrator.InvalidParams, "%s has no session event %q", h.Name,
			orchestrator.Clip(event))
	}
	if err := trusted(ctx, *env); err != nil {
		return nil, nil, err
	}
	e := hosts.Event{
		Agent: agent, Program: h.Name, Session: input.Session, Process: h.process(), Kind: kind,
		Inner:      input.Subagent != "",
		Transcript: h.transcript(&input), Writer: process.Self(), Fits: h.fits, Nudge: h.Shows,
		Size: h.bytes, Line: line,
		Forgets: h.Forgets,
	}
	happened, err := hosts.Happened(ctx, env.Ledger, e)
	if a = &happened; err != nil || e.Inner {
		return nil, a, err
	}
	if h.Elsewhere == nil {
		if err := h.Watch(event, &input, agent, env.Ledger.Path()); err != nil {
			env.Log.Warn("the session will not be woken", "agent", agent, "session", input.Session, "error", err)
		}
	}
	switch text := h.text(ctx, env, kind, auto, a); {
	case text != "":
		a.Size = len(text)
		said = mustJSON(h.Form(event, text))
	case kind == hosts.Rested:
		said = mustJSON(h.Dismiss)
	}
	return said, a, nil
}

// transcript returns the transcript of the session of an event.
func (h *Host) transcript(input *Input) hosts.Transcript {
	if h.Elsewhere != nil {
		return h.Elsewhere
	}
	return h.Own(input)
}

// Own returns the transcript of the session of an event of a host on this machine.
func (h *Host) Own(input *Input) hosts.Transcript {
	path := input.Transcript
	if path == "" && h.Path != nil {
		path = h.Path(input.Session)
	}
	return transcript{path, h}
}

// text returns the text of an answer, or "" for none. auto reports that the session has its own agent.
func (h *Host) text(ctx context.Context, env *commands.Env, kind hosts.Kind, auto bool, a *hosts.Answer) string {
	agent := env.Caller.Name
	text := ""
	if auto && kind == hosts.Started {
		text = ownName(agent)
	}
	if h.Shows && kind == hosts.Stopped {
		return text + nudgeText(a.Left)
	}
	return text + h.frame(agent, kind, a, verified(ctx, *env, a.Messages))
}

// verified returns the IDs of the messages with an answer that the user gave on a paired phone.
func verified(ctx context.Context, env commands.Env, ms []orchestrator.Message) (ids []string) {
	for i := range ms {
		is, err := person.Vouched(ctx, env.Ledger, &ms[i])
		if err != nil {
			env.Log.Warn("cannot determine whether the user answered on a phone", "message", ms[i].ID, "error", err)
		}
		if is {
			ids = append(ids, ms[i].ID)
		}
	}
	return ids
}

// trusted returns an error if the database is not trusted: its creator could write to the model as any agent.
func trusted(ctx context.Context, env commands.Env) error {
	why, err := env.Ledger.Untrusted(ctx)
	if err == nil && why != "" {
		return orchestrator.Errorf(orchestrator.PermissionDenied,
			"messages from an untrusted database are not shown to a model: %s", why).
			WithHint(ledger.NotTrustedHint)
	}
	return err
}
