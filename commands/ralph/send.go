package ralph

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/messages"
	"mailroom/tracing"
)

// SendParams describes a message to an agent, or to every member of a group. Source: document 002, "Message
// Structure".
type SendParams struct {
	ID             string          `json:"id,omitempty" desc:"your own message ID; a repeated send with this ID sends nothing" check:"id"`
	From           string          `json:"from,omitempty" desc:"agent that sends; may be left out if the caller's credential names it" check:"agent"`
	To             string          `json:"to" desc:"agent, group, or role:ROLE to send to" check:"agent|group|role"`
	Type           string          `json:"type" desc:"task_assign, implementation_complete, validation_passed, bug_report, question, answer, status_update, or your own type" check:"min=1,max=64"`
	Priority       string          `json:"priority,omitempty" desc:"messages with a higher priority are read first" check:"oneof=low|normal|high|urgent" default:"normal"`
	Payload        json.RawMessage `json:"payload,omitempty" desc:"object in the form that the type requires" check:"object,max=1048576" default:"{}"`
	Timestamp      string          `json:"timestamp,omitempty" desc:"time of writing, such as 2025-01-23T12:00:00.0000000Z" check:"min=1,max=64"`
	Status         string          `json:"status,omitempty" desc:"must be pending if given" check:"oneof=pending"`
	ReplyTo        string          `json:"replyTo,omitempty" desc:"ID of the message to answer" check:"id"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty" desc:"a repeated send with this key sends nothing and returns the first result" check:"min=1,max=256"`
	StrictRoutes   bool            `json:"strictRoutes,omitempty" desc:"reject a type that is not allowed between these agents, as the setting ralph.strict_routes does"`
}

// SendResult is the message as sent. A message to a group has the id that its copies share, and Messages lists the
// copies, one for each member.
type SendResult struct {
	Message
	Messages   []Message `json:"messages,omitempty"`
	Idempotent bool      `json:"idempotent,omitempty"` // it was sent before
	// what delays its delivery, or a possible mistake of the sender
	Note string `json:"note,omitempty"`
	commands.Replied
}

var sendCommand = commands.Define(vocabulary, "send", send).With(commands.Traits{Kind: tracing.Producer})

// send sends a message. The message is durable when send returns, and so is the presence that a status_update
// reports.
func send(ctx context.Context, env commands.Env, p SendParams) (SendResult, error) {
	draft, err := p.draft(env.Caller)
	if err == nil {
		err = p.checkRoute(ctx, env, draft.Sender)
	}
	if err != nil {
		return SendResult{}, err
	}
	sent, err := messages.Send(ctx, env.Ledger, draft)
	if err != nil {
		return SendResult{}, err
	}
	message := func(id, to string) Message {
		return render(&orchestrator.Message{
			ID: id, Sender: draft.Sender, Recipient: to, Type: draft.Type, Priority: draft.Priority,
			Payload:   draft.Payload,
			CreatedAt: sent.CreatedAt, ReplyTo: draft.ReplyTo, SessionID: draft.SessionID,
			MulticastID: sent.MulticastID,
			Origin:      sent.Origin,
		}).Message
	}
	r := SendResult{Message: message(sent.MessageID, p.To), Idempotent: sent.Idempotent,
		Note: cmp.Or(commands.NoteOf(&sent), letter.Misspelt(p.Type)), Replied: commands.RepliedOf(&sent)}
	if sent.MulticastID == "" {
		return r, nil
	}
	for i, to := range sent.Recipients {
		m := message(sent.MessageIDs[i], to)
		m.MulticastTarget = p.To
		r.Messages = append(r.Messages, m)
	}
	return r, nil
}

func (p *SendParams) draft(caller commands.Caller) (d orchestrator.Draft, err error) {
	d = orchestrator.Draft{
		ID: p.ID, Recipient: p.To, Type: p.Type, Payload: p.Payload, Priority: orchestrator.PriorityOf(p.Priority),
		ReplyTo:        p.ReplyTo,
		IdempotencyKey: p.IdempotencyKey, MakeID: letter.ID,
	}
	if caller.Session != orchestrator.DefaultSession { // the document has no key for the session
		d.SessionID = caller.Session
	}
	if p.Timestamp != "" {
		d.Origin = letter.Letter{About: letter.About{Timestamp: p.Timestamp, SessionID: d.SessionID}}.Origin()
	}
	if d.Sender, err = commands.ActAs(caller, p.From); err != nil {
		return d, err
	}
	switch p.Type {
	case "answer", orchestrator.ShutdownResponse, orchestrator.PlanApprovalResponse:
		d.Verdict = commands.VerdictIn(p.Payload)
	}
	d.Presence, err = letter.Check(p.Type, d.Sender, p.Payload)
	return d, err
}

// checkRoute returns an error for a message whose type is not allowed between the two agents, if strictRoutes or the
// setting ralph.strict_routes requires the check. Unknown names are left to the engine, which keeps the message as a
// dead letter.
func (p *SendParams) checkRoute(ctx context.Context, env commands.Env, sender string) error {
	setting, err := env.Ledger.Setting(ctx, "ralph.strict_routes")
	if err != nil || !p.StrictRoutes && setting.Value != "on" {
		return err
	}
	names, err := agents.List(ctx, env.Ledger)
	if err != nil {
		return err
	}
	to, err := agents.MembersOf(ctx, env.Ledger, p.To)
	if err != nil {
		return err
	}
	from := letter.Party{Name: sender}
	if i := slices.IndexFunc(names, func(a ledger.Agent) bool { return a.Name == sender }); i >= 0 {
		from.Role = names[i].Role
	} else if env.Caller.Name == "" || orchestrator.IsBuiltIn(sender) {
		return nil // the operator is in no route, and any other agent is about to register itself
	}
	for i := range names {
		if !slices.Contains(to, names[i].Name) {
			continue
		}
		if err := letter.CheckRoute(p.Type, from, letter.Party{Name: names[i].Name, Role: names[i].Role}); err != nil {
			return err
		}
	}
	return nil
}

// Text writes the result for people.
func (r SendResult) Text(w *terminal.Text) {
	switch {
	case r.Idempotent:
		w.Printf("%s was sent before, so nothing was sent now.\n", w.Paint(terminal.Bold, r.ID))
	case len(r.Messages) > 0:
		w.Printf("%s is stored on disk for %d agents.\n", w.Paint(terminal.Bold, r.ID), len(r.Messages))
	default:
		w.Printf("%s is stored on disk.\n", w.Paint(terminal.Bold, r.ID))
	}
	switch r.Note {
	case "":
	case letter.Misspelt(r.Type):
		w.Printf("%s\n", r.Note)
	default:
		w.Printf("The message %s.\n", r.Note)
	}
	r.Replied.Text(w)
}
