package console_test

import (
	"encoding/json"
	"testing"
	"time"

	"mailroom/orchestrator/questions"
)

// ask asks the user a question, unencrypted or in a form that only a phone could decrypt.
func (r *room) ask(asker string, encrypted bool, says map[string]any,
	change ...func(*questions.Draft)) questions.Question {
	r.t.Helper()
	id, err := questions.NewSignalID(r.Router.Ledger, "q-")
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := json.Marshal(says)
	if err != nil {
		r.t.Fatal(err)
	}
	d := questions.Draft{ID: id, Asker: asker, Encrypted: encrypted, Body: string(body), TTL: time.Hour, Priority: 7}
	if encrypted {
		d.Body = "c2VhbGVk"
	}
	for _, c := range change {
		c(&d)
	}
	q, _, err := questions.Ask(r.t.Context(), r.Router.Ledger, d)
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

// TestQuestions checks that open questions are shown with their asker and options, and encrypted ones as locked, and
// takes one back.
func TestQuestions(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	d := r.opens(1440, false, "/questions")
	d.Reads("No questions wait for you")
	d.Reads("mailroom signal pair")
	asked := r.ask("ann", false,
		map[string]any{"question": "Ship it " + hostile, "options": []string{"Yes", "<b>No</b>"},
			"context": "<i>It is tagged.</i>"})
	r.ask("bob", true, nil)
	d.Open(r.Address + "/questions")
	d.Reads("Two questions wait for you")
	d.Until(`[...document.querySelectorAll(".ask .meta > time")].every((e) => /^asked (just now|.* ago) · open until/.test(e.innerText))`)
	d.Reads("1 encrypted question")
	d.Reads("<b>No</b>")
	d.Reads("<i>It is tagged.</i>")
	d.Click("Cancel the question…")
	d.Reads("notifies ann that the question was canceled")
	d.Click("Cancel the question")
	d.Reads("One question waits for you")
	d.Until(`document.querySelector(".answered").innerText.includes("canceled")`)
	if q, err := questions.Get(t.Context(), r.Router.Ledger, asked.ID); err != nil || q.Status != questions.Cancelled {
		t.Errorf("%+v, %v", q, err)
	}
	r.looksRight("/questions",
		`document.querySelectorAll(".ask").length === 1 && document.querySelectorAll(".answered li").length === 1`)
}
