package cli

import (
	"context"
	"encoding/json"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// waitFlag makes a command wait for the answer to the message that it sends. Without a value, it waits for
// waitByDefault.
const (
	waitFlag      = "wait"
	waitByDefault = "5m"
)

// longestWait is the maximum value of --wait. The wait command has the same limit.
const longestWait = 24 * time.Hour

// longestCall is the longest time that one get_response call waits for the person's answer.
const longestCall = 55 * time.Second

// waitsForAnswer reports whether a command sends a message or question that can be answered.
func waitsForAnswer(d *commands.Definition) bool {
	return d.Name == "send" || d.Name == "reply" || d.Name == "ask_question"
}

// sent holds the fields of the result of a sending command that waiting for the answer requires.
type sent struct {
	MessageID  string `json:"message_id"`
	Sender     string `json:"sender"`
	QuestionID string `json:"questionId"`
}

// awaitAnswer waits for the answer to a sent message or question and prints the answer.
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

// named returns a command of the catalogue and its parameters as JSON.
func (p *Program) named(name string, params map[string]any) (*commands.Definition, json.RawMessage, error) {
	d, err := p.Catalogue.Lookup(name)
	if err != nil {
		return nil, nil, err
	}
	raw, err := orchestrator.JSON(params)
	return d, raw, err
}

// runNamed runs a command of the catalogue and decodes its result into result, unless result is nil.
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

// decode copies the fields of a command's result into a struct by way of JSON.
func decode(result, into any) error {
	text, err := orchestrator.JSON(result)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return err
}
