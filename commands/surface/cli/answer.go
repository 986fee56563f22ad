package cli

import (
	"context"
	"encoding/json"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// waitFlag has a command wait for the answer to what it has sent. Without a value it waits for waitByDefault.
const (
	waitFlag      = "wait"
	waitByDefault = "5m"
)

// longestWait is the longest --wait, the same as that of the command wait.
const longestWait = 24 * time.Hour

// longestCall is how long one call may wait for the person's answer.
const longestCall = 55 * time.Second

// waitsForAnswer reports whether a command sends something that can be answered.
func waitsForAnswer(d *commands.Definition) bool {
	return d.Name == "send" || d.Name == "reply" || d.Name == "ask_question"
}

// sent holds the fields of a send's result that a wait for the answer needs.
type sent struct {
	MessageID  string `json:"message_id"`
	Sender     string `json:"sender"`
	QuestionID string `json:"questionId"`
}

// awaitAnswer waits for the answer to what a command has sent, and prints it.
func (p *Program) awaitAnswer(ctx context.Context, env commands.Env, result any, patience time.Duration) error {
	var s sent
	if err := decode(result, &s); err != nil {
		return err
	}
	if s.QuestionID == "" {
		d, raw, err := p.named("wait", map[string]any{"recipient": s.Sender, "reply_to": s.MessageID, "answer_only": true,
			"timeout": int(patience / time.Second)})
		if err != nil {
			return err
		}
		return p.call(ctx, env, d, raw)
	}
	for ends := time.Now().Add(patience); ; {
		left := min(max(time.Until(ends), 0), longestCall).Round(time.Second)
		d, raw, err := p.named("get_response", map[string]any{"questionId": s.QuestionID,
			"wait_seconds": int(left / time.Second)})
		if err != nil {
			return err
		}
		answer, err := d.Run(ctx, env, raw)
		if err != nil {
			return err
		}
		if open, is := answer.Result.(commands.Opener); !is || !open.Open() || left == 0 {
			return p.hand(ctx, env, p.Out, answer)
		}
	}
}

// named returns a command of the catalogue, and its parameters as JSON.
func (p *Program) named(name string, params map[string]any) (*commands.Definition, json.RawMessage, error) {
	d, err := p.Catalogue.Lookup(name)
	if err != nil {
		return nil, nil, err
	}
	raw, err := orchestrator.JSON(params)
	return d, raw, err
}

// runNamed runs a command of the catalogue, and puts what it answers into a struct of ours, unless that is nil.
func (p *Program) runNamed(ctx context.Context, env commands.Env, name string, params map[string]any, result any) error {
	d, raw, err := p.named(name, params)
	if err != nil {
		return err
	}
	answer, err := d.Run(ctx, env, raw)
	if err != nil || result == nil {
		return err
	}
	return decode(answer.Result, result)
}

// decode puts the keys of a command's result into a struct of ours.
func decode(result, into any) error {
	text, err := orchestrator.JSON(result)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return err
}
