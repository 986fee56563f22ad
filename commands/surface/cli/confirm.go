package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
)

// yesFlag is the switch that skips the confirmation prompt.
const yesFlag = "yes"

// canAsk reports whether a person at a terminal can answer a question.
func canAsk(p *Program) bool { return p.text() && p.InTerminal && p.ErrTerminal }

// agrees asks a question, with " [y/N] " after it, and reports whether the answer is yes. It discards what was typed
// before the question. It returns an error if ctx ends first.
func agrees(ctx context.Context, p *Program, w *terminal.Text, question string) (bool, error) {
	if p.there != nil {
		p.there.Fresh()
	} else {
		dropTypeahead(p.In)
	}
	for line := range strings.Lines(question) {
		if line, more := strings.CutSuffix(line, "\n"); more {
			w.Printf("%s\n", line)
		} else {
			w.Printf("%s [y/N] ", line)
		}
	}
	answer, err := typed(ctx, p)
	if ctx.Err() != nil {
		return false, interrupted(ctx.Err())
	}
	return err == nil && slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))), nil
}

// meansAgent refuses a command line whose first word of text is the name of an agent, with or without an @: the user
// may have meant a second recipient of send, or a recipient of ask or alert, which write to the person. A text in
// quotes is one word and is sent unchanged, as are the last words, asTyped of them, which follow --.
func meansAgent(ctx context.Context, env commands.Env, d *commands.Definition, words []string, asTyped int) error {
	var name string
	switch {
	case d.Name == "send" && len(words) > 2 && asTyped < len(words)-1:
		name = words[1]
	case (d.Name == "ask_question" || d.Name == "send_alert") && len(words) == 2 && asTyped == 0 &&
		strings.Contains(words[1], " "):
		name = words[0]
	}
	name, err := orchestrator.CheckName("agent", strings.TrimPrefix(name, "@"))
	if err != nil || agents.MustKnow(ctx, env.Ledger, name) != nil {
		return nil
	}
	e := orchestrator.Errorf(orchestrator.InvalidParams, "nothing was sent: %s is an agent, but this command would send the name as the first word of the text", name)
	if d.Name == "send" {
		return e.WithHint("If the text begins with this name, put quotes around the text. To send to several agents, make a group: `mailroom group set NAME %s %s`",
			strings.TrimPrefix(words[0], "@"), name)
	}
	return e.WithHint("If the text begins with this name, put quotes around the text. To write to the agent instead of the person, run `mailroom send %s TEXT`", name)
}

// goesOn asks for confirmation before an operation that cannot be undone. If nobody can be asked, it returns nil.
func goesOn(ctx context.Context, p *Program, env commands.Env, d *commands.Definition, raw json.RawMessage) error {
	var values map[string]json.RawMessage
	if d.Confirm == "" || !canAsk(p) || json.Unmarshal(raw, &values) != nil {
		return nil
	}
	if only := d.ConfirmWith; only != "" && (values[only] == nil || string(values[only]) == "false") {
		return nil
	}
	foreseen, err := d.Foreseen(ctx, env, raw)
	if err != nil {
		return err
	}
	values["foreseen"], _ = json.Marshal(foreseen)
	if env.Engine != nil {
		values["database"], _ = json.Marshal(env.Ledger.Path())
	}
	says := commands.InConfirm().ReplaceAllStringFunc(d.Confirm, func(name string) string {
		value := values[strings.Trim(name, "{}")]
		text := string(value)
		_ = json.Unmarshal(value, &text) // a value that is not a string is shown as JSON
		return text
	})
	agreed, err := agrees(ctx, p, p.people(p.Err, p.ErrTerminal), says+" Continue?")
	if err == nil && !agreed {
		err = orchestrator.Errorf(orchestrator.InvalidParams, "nothing was done")
	}
	return err
}
