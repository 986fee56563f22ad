package mail

import (
	"cmp"
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/threads"
)

// GetMessageParams names a message.
type GetMessageParams struct {
	MessageID string `json:"message_id" desc:"message to show" check:"id" arg:"1"`
	Agent     string `json:"agent,omitempty" desc:"agent that sent or got the message" check:"agent"`
	Offset    *int   `json:"offset,omitempty" desc:"for a long message: show the part that starts at this character, counted from 0" check:"min=0"`
}

// GetMessageResult is one message, or a part of it, and what is known about its delivery.
type GetMessageResult struct {
	Part // zero for the whole message
	Message
	Receipts []messages.Receipt `json:"receipts"`
	// of a send to a group, or of a post: one copy for each recipient
	Copies []Copy `json:"copies,omitempty"`

	CopiesLeftOut int `json:"copies_left_out,omitempty"` // left out because the answer would be too long for the model
}

// Copy is the copy of a message for one of several agents.
type Copy struct {
	MessageID string             `json:"message_id"`
	Recipient string             `json:"recipient"`
	Status    string             `json:"status"`
	Error     string             `json:"error_message,omitempty"`
	Receipts  []messages.Receipt `json:"receipts"`
}

var getMessageCommand = commands.Define(vocabulary, "get_message", getMessage).
	With(commands.Traits{BesideAny: true}).Called("show", "", "Show one complete message and its history")

// getMessage returns a message. It changes nothing. A model gets a message that is too long for its host in parts,
// even if it asks for no part.
func getMessage(ctx context.Context, env commands.Env, p GetMessageParams) (GetMessageResult, error) {
	agent, err := ownerOrAll(ctx, env, p.Agent)
	if err != nil {
		return GetMessageResult{}, err
	}
	view, err := threads.OwnMessage(ctx, env.Ledger, p.MessageID, agent)
	if err != nil {
		return GetMessageResult{}, err
	}
	if p.Offset != nil {
		return getPart(&view, &p)
	}
	r := GetMessageResult{Message: render(&view.Message), Receipts: view.Receipts}
	r.ThreadName = view.Thread.Name
	for i := range view.Copies {
		m := &view.Copies[i].Message
		r.Copies = append(r.Copies, Copy{m.ID, m.Recipient, string(m.Status), m.Error, view.Copies[i].Receipts})
	}
	for n := len(r.Copies); env.Call.Model && !commands.ShownWhole(r); n /= 2 {
		if n == 0 {
			return getPart(&view, &p)
		}
		r.Copies, r.CopiesLeftOut = r.Copies[:n/2], len(view.Copies)-n/2
	}
	return r, nil
}

// getPart returns a part of a message in the form for models. It leaves out other fields that could be long, or that
// the text contains already.
func getPart(view *threads.MessageView, p *GetMessageParams) (GetMessageResult, error) {
	offset := 0
	if p.Offset != nil {
		offset = *p.Offset
	}
	part, text, err := partOf(commands.Told(&view.Message), p.MessageID, offset)
	if err != nil {
		return GetMessageResult{}, err
	}
	m := &view.Message
	return GetMessageResult{
		Part: part,
		Message: Message{
			MessageID: m.ID, Sender: m.Sender, Recipient: m.Recipient, Type: m.Type, Text: text, ThreadID: m.ThreadID,
			ReplyTo: m.ReplyTo,
			Status:  string(m.Status), CreatedAt: m.CreatedAt,
		},
		Receipts: view.Receipts,
	}, nil
}

// Text writes the message, its fields, and what happened to it.
func (r GetMessageResult) Text(w *terminal.Text) {
	r.write(w)
	w.Fields(
		[2]string{"part", r.Says}, [2]string{"status", r.Status}, [2]string{"error", r.Error},
		[2]string{"thread", cmp.Or(r.ThreadName, r.ThreadID)},
		[2]string{"in reply to", r.ReplyTo}, [2]string{"sent to", r.Group},
		[2]string{"mentions", strings.Join(r.Mentions, ", ")},
		[2]string{"context", r.Context},
	)
	for _, receipt := range r.Receipts {
		w.Printf("%s %s\n", receipt.At, receipt.What)
	}
	for i := range r.Copies {
		c := &r.Copies[i]
		w.Printf("%s to %s: %s\n", c.MessageID, c.Recipient, w.Status(c.Status))
	}
}
