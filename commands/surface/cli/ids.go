package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/pattern"
)

// last is the word for the newest message of the caller, sent or received, to which the command applies.
const last = "last"

// idsOfMessages lists the parameters that accept last or the end of a message ID.
var idsOfMessages = []string{"message_id", "reply_to", "replyTo"}

// idFinder resolves last and the ends of message IDs to messages.
type idFinder struct {
	p     *Program
	env   commands.Env
	d     *commands.Definition // the command to run
	yes   bool                 // skip the confirmation
	asked bool                 // a person has already agreed
}

// whole replaces last and the ends of message IDs in the parameters by whole IDs. If the command changes something,
// whole shows the message that it found and asks for confirmation; if nobody can be asked, it returns an error.
func (f *idFinder) whole(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var values map[string]json.RawMessage
	if f.env.Engine == nil || json.Unmarshal(raw, &values) != nil {
		return raw, nil
	}
	changed := false
	for _, name := range idsOfMessages {
		var text string
		if json.Unmarshal(values[name], &text) != nil || text == "" {
			continue
		}
		m, err := f.find(ctx, name, text)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		if err := f.confirm(ctx, name, text, m); err != nil {
			return nil, err
		}
		values[name], changed = json.RawMessage(orchestrator.JSONString(m.ID)), true
	}
	if !changed {
		return raw, nil
	}
	return orchestrator.Unmended(values)
}

// find returns the message that last or the end of an ID refers to. It returns nil if the text is to be used
// unchanged: it is a whole ID, or no ID ends with it. Senders can choose IDs, but an ID "last" does not replace the
// word.
func (f *idFinder) find(ctx context.Context, name, text string) (*orchestrator.Message, error) {
	env := f.env
	by := env.Caller.Name
	if text == last {
		m, found, err := messages.Newest(ctx, env.Ledger, by, func(m *orchestrator.Message) bool {
			return f.d.Last == nil || f.d.Last(m, cmp.Or(by, orchestrator.Operator))
		})
		if err == nil && !found {
			err = orchestrator.Errorf(orchestrator.NotFound, "%s: \"last\" matches no message", name)
		}
		return &m, err
	}
	switch whole, err := messages.Find(ctx, env.Ledger, text); {
	case err == nil && f.changes():
		return nil, f.meansOther(ctx, name, text, &whole[0])
	case err == nil || orchestrator.CodeOf(err) != orchestrator.NotFound:
		return nil, nil // the command reports the error
	}
	const shown = 5
	found, err := messages.EndingWith(ctx, env.Ledger, by, text, shown+1)
	switch {
	case err != nil || len(found) == 0:
		return nil, err
	case len(found) == 1:
		return &found[0], nil
	}
	var lines []string
	for i := range found[:min(len(found), shown)] {
		lines = append(lines, inShort(f.p, &found[i]))
	}
	more := ""
	if len(found) > shown {
		more = "more than "
	}
	return nil, orchestrator.InvalidParam(name, "%s%d message IDs end with %q", more, min(len(found), shown), text).
		WithHint("Give more of the ID:\n%s", strings.Join(lines, "\n"))
}

// madeHere matches the IDs that Mailroom generates for messages whose sender has not chosen one.
var madeHere = pattern.New(`^(msg|mc)-[0-9A-HJKMNP-TV-Z]{26}$|^msg-.+-\d{8}-\d{6}-\d{3,}$`)

// meansOther returns an error if a whole ID is also the end of the generated ID of another message: a sender may have
// chosen it to receive an operation meant for the other message. It ignores other chosen IDs, which may well end
// alike.
func (f *idFinder) meansOther(ctx context.Context, name, text string, whole *orchestrator.Message) error {
	if madeHere().MatchString(text) {
		return nil
	}
	const most = 5
	found, err := messages.EndingWith(ctx, f.env.Ledger, f.env.Caller.Name, text, most)
	if err != nil {
		return err
	}
	lines := []string{inShort(f.p, whole)}
	for i := range found {
		if madeHere().MatchString(found[i].ID) {
			lines = append(lines, inShort(f.p, &found[i]))
		}
	}
	if len(lines) == 1 {
		return nil
	}
	return orchestrator.InvalidParam(name, "%q is the ID of one message and the end of the ID of another message", text).
		WithHint("Give more of the ID, or run the command with `mailroom invoke`, which accepts only whole IDs:\n%s",
			strings.Join(lines, "\n"))
}

// inShort returns a one-line summary of a message.
func inShort(p *Program, m *orchestrator.Message) string {
	text := p.people(p.Err, p.ErrTerminal).Cut(terminal.Inline(commands.ContentOf(m).Text), 60)
	return terminal.Inline(fmt.Sprintf("%s  %s from %s to %s, %s: %s", m.ID, m.Type, m.Sender, m.Recipient, m.CreatedAt,
		text))
}

// changes reports whether the command changes something.
func (f *idFinder) changes() bool { return !f.d.LooksOnly && !f.d.Card().OnlyReads() }

// confirm asks whether a command that changes something should apply to this message.
func (f *idFinder) confirm(ctx context.Context, name, text string, m *orchestrator.Message) error {
	p := f.p
	if !f.changes() {
		return nil
	}
	if !canAsk(p) {
		return orchestrator.InvalidParam(name, "%q matches %s, but there is no terminal on which you can confirm the match", text,
			m.ID).
			WithHint("Give the whole ID, or run the command on a terminal")
	}
	w := p.people(p.Err, p.ErrTerminal)
	w.Printf("%s\n", inShort(p, m))
	if f.yes {
		return nil
	}
	agreed, err := agrees(ctx, p, w, "Run `"+strings.TrimPrefix(f.d.CommandLine(), "mailroom ")+"` on this message?")
	if err != nil {
		return err
	}
	if !agreed {
		return orchestrator.InvalidParam(name, "nothing was done")
	}
	f.asked = true
	return nil
}
