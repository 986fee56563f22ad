package route

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/reading"
	"mailroom/tracing"
)

// WaitParams selects the messages to wait for.
type WaitParams struct {
	Recipient  string            `json:"recipient,omitempty" desc:"agent that reads its messages; may be left out if --as or MAILROOM_AGENT names it" check:"agent" arg:"1"`
	Timeout    parameter.Seconds `json:"timeout,omitempty" desc:"how long to wait if there are no unread messages" check:"min=0,max=86400" default:"30"`
	BatchSize  int               `json:"batch_size,omitempty" desc:"maximum number of messages" check:"min=1,max=1000" default:"10"`
	Lease      parameter.Seconds `json:"lease,omitempty" desc:"seconds until messages become unread again unless acknowledged; default: printed messages are marked as read" check:"min=1,max=86400"`
	WaitFor    string            `json:"wait_for,omitempty" desc:"agent to wait for; it must not wait for the recipient, directly or through others" check:"agent"`
	ReplyTo    string            `json:"reply_to,omitempty" desc:"message that the recipient sent: wait for an answer to it, as if wait_for named the agents that got it" check:"id"`
	AnswerOnly bool              `json:"answer_only,omitempty" desc:"take only the answer to reply_to, and leave other messages unread"`
}

// WaitResult holds the messages, which are marked as read, or leased. A wait that times out is not an error.
type WaitResult struct {
	Recipient string                 `json:"recipient"`
	Count     int                    `json:"count"`
	Messages  []orchestrator.Message `json:"messages"`
	More      bool                   `json:"more"`           // more messages are unread: call again
	Rest      string                 `json:"rest,omitempty"` // for a model: how to get the rest
	TimedOut  bool                   `json:"timed_out"`
	Until     string                 `json:"lease_until,omitempty"` // when unacknowledged messages become unread again
	Timestamp string                 `json:"timestamp"`
	commands.Waited
	commands.Taken

	awaits string // the message, with answer_only
}

var waitCommand = commands.Define(vocabulary, "wait", wait).
	With(commands.Traits{Kind: tracing.Consumer, Document: true}).
	Called("read", `{"timeout":0}`, "Read an agent's unread messages, and mark them as read")

// wait takes unread messages, or waits for some.
func wait(ctx context.Context, env commands.Env, p WaitParams) (WaitResult, error) {
	recipient, err := commands.ReadAs(ctx, env, p.Recipient)
	if err != nil {
		return WaitResult{}, err
	}
	answer := func(ms []orchestrator.Message) any {
		return WaitResult{Recipient: recipient, Count: len(ms), Messages: ms, Until: commands.LeaseEnd(ms),
			Timestamp: timestamp(env)}
	}
	o := reading.Options{
		Recipient: recipient, Timeout: env.Wait(p.Timeout.Duration()), Limit: p.BatchSize, ReplyTo: p.ReplyTo,
		Lease: commands.Lease(env.Caller, "wait", p.Lease),
		Fits:  env.Fits(answer),
	}
	if p.AnswerOnly {
		if p.ReplyTo == "" {
			return WaitResult{}, orchestrator.InvalidParam("answer_only", "requires reply_to")
		}
		o.Filter.Answers = p.ReplyTo
	}
	if p.WaitFor != "" {
		o.For = []string{p.WaitFor}
	}
	if env.Call.Aside != nil {
		o.Waiting = func() {
			env.Call.Aside.Printf("Waiting up to %[2]s for a message to %[1]s. Stop with Ctrl-C.\n", recipient,
				orchestrator.FormatDuration(o.Timeout))
		}
	}
	ms, more, err := reading.Wait(ctx, env.Ledger, o)
	if err != nil {
		return WaitResult{}, err
	}
	shown, taken := commands.Hand(ctx, env, ms, o.Lease, answer)
	r := answer(shown).(WaitResult)
	r.More = more || len(shown) < len(ms)
	r.Rest, r.TimedOut, r.Taken = env.Rest(r.More, "call wait again"), len(ms) == 0, taken
	if p.AnswerOnly {
		r.awaits = p.ReplyTo
	}
	if r.TimedOut {
		r.Waited = env.WaitedFor(p.Timeout.Duration())
	}
	return r, nil
}

// Text writes each message with its payload.
func (r WaitResult) Text(w *terminal.Text) {
	switch {
	case r.TimedOut && r.awaits != "":
		w.Printf("Nobody has answered %s yet.\n", r.awaits)
		return
	case r.TimedOut:
		w.Printf("No unread messages for %s.\n", r.Recipient)
		return
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		content := commands.ContentOf(m)
		w.Printf("%s  %s from %s, %s\n", w.Paint(terminal.Bold, m.ID), m.Type, m.Sender, w.When(m.CreatedAt))
		w.Body("  ", content.Text)
		if data := string(content.Data); data != "" && data != content.Text {
			w.Body("  ", data)
		}
	}
	commands.TellRest(w, r.Until, r.More)
}
