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

// last stands for the newest message that the caller has sent or got, of those that the command can do something with.
const last = "last"

// idsOfMessages are the parameters in which a person may type last, or the ending of an id.
var idsOfMessages = []string{"message_id", "reply_to", "replyTo"}

// idFinder finds which message a person means.
type idFinder struct {
	p     *Program
	env   commands.Env
	d     *commands.Definition // the command that is to be run
	yes   bool                 // a person wants not to be asked
	asked bool                 // a person has agreed that it is run
}

// whole puts ids of messages in the place of last and of endings of ids. Before a command that changes something it
// shows what was found and asks; where nobody can be asked that is refused.
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

// find returns the message that last, or the ending of an id, stands for; nil for what is to be taken as it is: a whole
// id, or a text that no id ends with. Senders may choose ids: none takes the place of last.
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
		return nil, nil // errors are for the command to tell
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

// madeHere are the ids that messages get whose sender has not chosen one.
var madeHere = pattern.New(`^(msg|mc)-[0-9A-HJKMNP-TV-Z]{26}$|^msg-.+-\d{8}-\d{6}-\d{3,}$`)

// meansOther refuses a whole id that is the ending of another message's: its sender may have chosen it so that what is
// meant for the other hits this one. nil for any other, since ids that senders choose may well end alike.
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

// inShort is a message on one line.
func inShort(p *Program, m *orchestrator.Message) string {
	text := p.people(p.Err, p.ErrTerminal).Cut(terminal.Inline(commands.ContentOf(m).Text), 60)
	return terminal.Inline(fmt.Sprintf("%s  %s from %s to %s, %s: %s", m.ID, m.Type, m.Sender, m.Recipient, m.CreatedAt,
		text))
}

// changes reports whether the command changes something.
func (f *idFinder) changes() bool { return !f.d.LooksOnly && !f.d.Card().OnlyReads() }

// confirm asks whether a command that changes something means this message.
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
