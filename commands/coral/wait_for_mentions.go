package coral

import (
	"context"
	"encoding/xml"
	"slices"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/reading"
	"mailroom/tracing"
)

// maxTaken is the largest number of messages that one wait takes. The next wait gets the others.
const maxTaken = 100

// longestWait is the largest value of timeoutMs. Source: document 003.
const longestWait = time.Minute

// WaitForMentionsParams selects the messages to wait for. Source: document 003, "Waiting for Messages".
type WaitForMentionsParams struct {
	AgentID   string `json:"agentId,omitempty" desc:"agent that waits; may be left out if the caller's credential names it" check:"agent"`
	TimeoutMs int    `json:"timeoutMs,omitempty" desc:"milliseconds to wait if there are no messages" check:"min=0,max=60000" default:"30000"`
	WaitFor   string `json:"waitFor,omitempty" desc:"agent to wait for; it must not already wait for agentId, directly or through others" check:"agent"`
	Filter    bool   `json:"filter,omitempty" desc:"take only messages from the waitFor agent; others stay unread"`
	Any       bool   `json:"any,omitempty" desc:"also take unread posts that do not mention the agent"`
	ReplyTo   string `json:"reply_to,omitempty" desc:"message that agentId sent: wait for an answer to it, as if waitFor named its recipients" check:"id"`
	Format    string `json:"format,omitempty" desc:"format of the text that MCP clients show" check:"oneof=xml|json" default:"xml"`
}

// WaitForMentionsResult holds the messages by thread; they are marked as read. A wait that times out is not an error.
type WaitForMentionsResult struct {
	AgentID  string   `json:"agentId"`
	Count    int      `json:"count"`
	More     bool     `json:"more"`           // more messages are unread: call again
	Rest     string   `json:"rest,omitempty"` // for a model: how to get the rest
	Threads  []Thread `json:"threads"`
	TimedOut bool     `json:"timed_out"`
	commands.Waited
	commands.Taken

	timeout time.Duration
	format  string
}

var waitForMentionsCommand = commands.Define(vocabulary, "wait_for_mentions", waitForMentions).
	With(commands.Traits{Kind: tracing.Consumer, Patience: longestWait})

// waitForMentions takes all unread messages of the agent, or waits for one. If several calls wait, each message goes
// to one of them.
func waitForMentions(ctx context.Context, env commands.Env, p WaitForMentionsParams) (WaitForMentionsResult, error) {
	agent, err := commands.ReadAs(ctx, env, p.AgentID)
	if err != nil {
		return WaitForMentionsResult{}, err
	}
	r := WaitForMentionsResult{AgentID: agent, Threads: []Thread{}, format: p.Format}
	asked := time.Duration(p.TimeoutMs) * time.Millisecond
	r.timeout = env.Wait(asked)
	beside := func(ms []orchestrator.Message) any { return besideThreads(env, agent, ms) }
	o := reading.Options{
		Recipient: agent, Timeout: r.timeout, Limit: maxTaken, ReplyTo: p.ReplyTo, Posts: p.Any, Fits: env.Fits(beside),
		Lease: commands.Lease(env.Caller, "wait_for_mentions", 0),
	}
	if p.WaitFor != "" {
		o.For = []string{p.WaitFor}
	}
	if err := p.filter(&o.Filter); err != nil {
		return WaitForMentionsResult{}, err
	}
	ms, more, err := reading.Wait(ctx, env.Ledger, o)
	if err != nil {
		return WaitForMentionsResult{}, err
	}
	shown, taken := commands.Hand(ctx, env, ms, o.Lease, beside)
	r.Count, r.More, r.TimedOut, r.Taken = len(shown), more || len(shown) < len(ms), len(ms) == 0, taken
	r.Rest = env.Rest(r.More, "call wait_for_mentions again")
	if r.TimedOut {
		r.Waited = env.WaitedFor(asked)
		return r, nil
	}
	if r.Threads, err = render(ctx, env, agent, shown); err != nil {
		return WaitForMentionsResult{}, err
	}
	for i := len(r.Threads) - 1; i >= 0 && env.Call.Model && !commands.ShownWhole(r); i-- {
		r.Threads[i].shorten()
	}
	return r, nil
}

// besideThreads returns an answer with messages, and with room for their threads.
func besideThreads(env commands.Env, agent string, ms []orchestrator.Message) any {
	r := WaitForMentionsResult{AgentID: agent, Count: len(ms)}
	v := view{reader: agent, session: env.Caller.Session}
	for i := range ms {
		at := slices.IndexFunc(r.Threads, func(t Thread) bool { return t.ID == ms[i].ThreadID })
		if at < 0 {
			at = len(r.Threads)
			r.Threads = append(r.Threads, Thread{ID: ms[i].ThreadID, Summary: text(commands.Room)})
		}
		r.Threads[at].Messages = append(r.Threads[at].Messages, v.message(&ms[i], nil, true))
	}
	return r
}

// filter sets the filter for the messages that the wait takes.
func (p *WaitForMentionsParams) filter(f *reading.Filter) error {
	switch {
	case !p.Filter:
		return nil
	case p.WaitFor == "":
		return orchestrator.Errorf(orchestrator.InvalidParams, "`filter` requires `waitFor`").
			WithHint("Set `waitFor` to the agent whose messages you want")
	case p.Any:
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"`filter` and `any` cannot be combined, because `any` reads posts in order without skipping posts").
			WithHint("Omit either `filter` or `any`")
	}
	f.Sender = p.WaitFor
	return nil
}

// ToolText returns the XML of the document or, with format json, the result as JSON.
func (r WaitForMentionsResult) ToolText() string {
	if r.format == "json" {
		return marshaled(orchestrator.JSON(r))
	}
	if r.TimedOut {
		text := "No new messages arrived for " + r.AgentID + " within the timeout of " + r.timeout.String() + "."
		if r.Less != "" {
			text += " The call waited " + r.Less + "."
		}
		return text
	}
	return marshaled(xml.MarshalIndent(struct {
		XMLName xml.Name `xml:"messages"`
		More    bool     `xml:"more,attr,omitempty"`
		Rest    string   `xml:"rest,omitempty"`
		Threads []Thread `xml:"thread"`
	}{More: r.More, Rest: r.Rest, Threads: r.Threads}, "", "  "))
}

// marshaled returns the result of marshaling texts and numbers, which cannot fail.
func marshaled(b []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Text writes each message below its thread.
func (r WaitForMentionsResult) Text(w *terminal.Text) {
	if r.TimedOut {
		w.Printf("No new messages for %s before the timeout.\n", r.AgentID)
		return
	}
	for i := range r.Threads {
		r.Threads[i].write(w)
	}
	commands.TellRest(w, "", r.More)
}
