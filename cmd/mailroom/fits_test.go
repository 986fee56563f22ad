package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// A message that is too large, although each parameter is within its bounds, is rejected under the name of a
// parameter that the caller gave. A message that is one byte smaller is sent.
func TestWhatDoesNotFitIsNamed(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	thread := m.value(m.run("writer", "default", "coral_create_thread",
		`{"threadName":"x","participantIds":["reader"]}`), "threadId")
	const most = orchestrator.MaxPayload
	text := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		command, params, parameter string
		beside                     int // bytes of JSON in addition to the text
	}{
		{"send_message", `{"target":"reader","message_type":"STATUS","message":"` + text + `","payload":{"k":"%s"}}`,
			"payload",
			len(`{"message":"","payload":{"k":""}}`) + len(text)},
		{"coral_send_message", `{"threadId":"` + thread + `","content":"%s","mentions":["reader"]}`, "content",
			len(`{"content":"","mentions":["reader"]}`)},
		{"coral_send_message", `{"threadId":"direct:reader","content":"%s"}`, "content",
			len(`{"content":"","mentions":["reader"]}`)},
		{"SendMessage", `{"to":"reader","message":"%s"}`, "message", len(`{"message":""}`)},
		{"SendMessage", `{"to":"reader","message":{"type":"plan_approval_request","plan":"%s"}}`, "message",
			len(`{"type":"plan_approval_request","requestId":"req-01KAJ2XZ5B8QJ0V2N7N1T5W3RC","plan":""}`)},
	} {
		d, err := config().Catalogue.Lookup(c.command)
		if err != nil {
			t.Fatal(err)
		}
		env := commands.Env{Engine: m.router, Caller: commands.Caller{Name: "writer", Session: "default"}, Log: m.log,
			Catalogue: config().Catalogue}
		send := func(size int) error {
			_, err := d.Run(t.Context(), env,
				json.RawMessage(fmt.Sprintf(c.params, strings.Repeat("x", size-c.beside))))
			return err
		}
		var e *orchestrator.Error
		if err := send(most + 1); !errors.As(err, &e) || e.Code != orchestrator.InvalidParams ||
			e.Details["parameter"] != c.parameter ||
			!strings.HasPrefix(e.Message, c.parameter+": ") {
			t.Errorf("%s: %.200v", c.command, err)
		}
		if err := send(most); err != nil {
			t.Errorf("%s with what just fits: %.200v", c.command, err)
		}
	}
}
