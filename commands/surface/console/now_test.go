package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
)

// note sends a note, which waits if nobody has the recipient's name.
func (r *room) note(sender, recipient, text string) {
	r.t.Helper()
	payload, err := json.Marshal(map[string]string{"text": text})
	if err == nil {
		_, err = messages.Send(r.t.Context(), r.Router.Ledger, orchestrator.Draft{Sender: sender, Recipient: recipient, Type: "note", Payload: payload, HoldUnknown: true})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// read has agents read their mail.
func (r *room) read(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if _, _, err := reading.Wait(r.t.Context(), r.Router.Ledger, reading.Options{Recipient: name, Limit: 100}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// disable has the transport of an agent disabled, as a webhook does that answers that it is gone.
func (r *room) disable(name, why string) {
	r.t.Helper()
	err := r.Router.Ledger.Write(r.t.Context(), store.Alone, func(t *ledger.Tx) error {
		agent := *t.Config().Agents[name]
		agent.Disabled = t.Now + " " + why
		if err := agents.Store(t, &agent); err != nil {
			return err
		}
		return t.ConfigChanged()
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// badDay is a room in which messages flow, and in which five things need a person.
func badDay(t *testing.T, minutes int, odd string) *room {
	t.Helper()
	r := newRoom(t, "architect", "code_developer", "reviewer", "billing", "release-bot", "tester", "pm")
	taken := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(taken, 0o755); err != nil {
		t.Fatal(err)
	}
	deliver := "jsonl:" + filepath.Join(taken, "mail.jsonl")
	if _, _, err := agents.Add(t.Context(), r.Router.Ledger, agents.Update{Name: "builder", Deliver: &deliver}); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(taken, "mail.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Router.SetSetting(t.Context(), "retry.ladder", "1m,1m"); err != nil {
		t.Fatal(err)
	}
	for i := range minutes {
		for j := range 3 + i%4 {
			r.note("architect", "code_developer", fmt.Sprint("task ", i, " ", j))
			r.note("code_developer", []string{"architect", "tester"}[j%2], "done")
		}
		if i > minutes/3 && i%3 == 0 {
			r.note("code_developer", "reviewer", "please review")
			r.note("release-bot", "billing", "invoice")
		}
		if i > minutes/2 && i < minutes-3 {
			r.note([]string{"architect", "code_developer"}[i%2], "builder", odd)
		}
		if i == minutes/2 {
			r.disable("billing", "410 Gone: "+odd)
			r.ask("release-bot", false, map[string]any{"question": "Which name should the release carry? "+odd, "options": []string{"Yes", "No"}})
		}
		r.deliver()
		r.read("architect", "code_developer", "tester", "pm")
		r.Step(time.Minute)
	}
	r.note("pm", "operator", odd)
	r.note("pm", "ghost", odd)
	r.deliver()
	return r
}

var _ = strings.Contains
