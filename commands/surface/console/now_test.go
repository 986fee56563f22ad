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
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
)

// send sends a message, which waits if nobody has the recipient's name.
func (r *room) send(sender, recipient, text string) {
	r.t.Helper()
	payload, err := json.Marshal(map[string]string{"text": text})
	if err == nil {
		_, err = messages.Send(r.t.Context(), r.Router.Ledger, orchestrator.Draft{Sender: sender, Recipient: recipient, Type: "note", Payload: payload, HoldUnknown: true})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// deliver delivers what is due.
func (r *room) deliver() {
	r.t.Helper()
	if _, err := r.Router.DeliverAll(r.t.Context(), delivery.Options{}); err != nil {
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

// ask asks the user a question that needs no key.
func (r *room) ask(asker, question string) {
	r.t.Helper()
	id, err := questions.NewSignalID(r.Router.Ledger, "q-")
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"question": question, "options": []string{"Yes", "No"}})
	if err == nil {
		_, _, err = questions.Ask(r.t.Context(), r.Router.Ledger, questions.Draft{ID: id, Asker: asker, Body: string(body), TTL: 24 * time.Hour})
	}
	if err != nil {
		r.t.Fatal(err)
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
			r.send("architect", "code_developer", fmt.Sprint("task ", i, " ", j))
			r.send("code_developer", []string{"architect", "tester"}[j%2], "done")
		}
		if i > minutes/3 && i%3 == 0 {
			r.send("code_developer", "reviewer", "please review")
			r.send("release-bot", "billing", "invoice")
		}
		if i > minutes/2 && i < minutes-3 {
			r.send([]string{"architect", "code_developer"}[i%2], "builder", odd)
		}
		if i == minutes/2 {
			r.disable("billing", "410 Gone: "+odd)
			r.ask("release-bot", "Which name should the release carry? "+odd)
		}
		r.deliver()
		r.read("architect", "code_developer", "tester", "pm")
		r.Step(time.Minute)
	}
	r.send("pm", "operator", odd)
	r.send("pm", "ghost", odd)
	r.deliver()
	return r
}

var _ = strings.Contains
