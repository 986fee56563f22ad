package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"mailroom/commands/surface/phone/browsertest"
)

// TestChromiumQuestion checks that a question with five options can be answered on the page, and so can one without
// options. A push contains no plain text, and a modified push shows nothing.
func TestChromiumQuestion(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.ChromiumPrograms...)
	h := newHousehold(ctx, t, "mailroom")
	receiver := browsertest.NewReceiver(ctx, t, h.push)
	page, worker := browsertest.StartChromium(ctx, t).NewPage(receiver)
	h.pair(page)
	h.ring(page)

	words := newCanaries("question", "context", "first", "second", "third", "fourth", "fifth")
	options := []string{words["first"], words["second"], words["third"], words["fourth"], words["fifth"]}
	ask := []string{"--context", words["context"], "--priority", "high"}
	for _, option := range options {
		ask = append(ask, "--options", option)
	}
	id := h.ask(words["question"], ask...)
	pushed := receiver.Next()
	for name, word := range words {
		for form, bytes := range forms(word) {
			if contains(pushed, bytes) {
				t.Errorf("the %s stands in the push, as %s", name, form)
			}
		}
	}
	worker.Push(h.daemon.phone, flipped(t, pushed))
	worker.Push(h.daemon.phone, pushed)
	if got := worker.Shown(); got.Title != h.project()+": builder asks" || got.Body != words["question"] ||
		got.Tag != id || len(got.Actions) > 0 {
		t.Errorf("notification %+v; five buttons are too many for it", got)
	}
	page.Reads(words["context"])
	var buttons []string
	page.Eval(`[...document.querySelectorAll("article button")].map(b => b.innerText)`, &buttons)
	if !slices.Equal(buttons, options) {
		t.Errorf("buttons %q; want %q", buttons, options)
	}
	h.answer(page, words["fourth"])
	h.answered(id, words["fourth"])
	page.Quiet()

	words["text"] = newCanaries("text")["text"]
	open := h.ask(words["question"])
	worker.Push(h.daemon.phone, receiver.Next())
	worker.Shown()
	page.Type("Your answer", words["text"])
	h.answer(page, "Send answer")
	h.answered(open, words["text"])
	page.Reads("You answered: " + words["text"])
	page.Quiet()
	if got := worker.All(); len(got) != 2 {
		t.Errorf("what was changed is shown: %+v", got)
	}
	h.stop()
	h.hides(words, "first", "second", "third", "fourth", "fifth")
}

// flipped changes one bit of the ciphertext in a push.
func flipped(t *testing.T, pushed []byte) []byte {
	t.Helper()
	var said map[string]any
	if err := json.Unmarshal(pushed, &said); err != nil {
		t.Fatal(err)
	}
	ciphertext, _ := said["ciphertext"].(string)
	at := len(ciphertext) - 30
	if at < 0 {
		t.Fatalf("there is no ciphertext in %s", pushed)
	}
	other := byte('A')
	if ciphertext[at] == other {
		other = 'B'
	}
	return bytes.Replace(pushed, []byte(ciphertext), []byte(ciphertext[:at]+string(other)+ciphertext[at+1:]), 1)
}

// TestChromiumAlert checks that an alert is shown with its type, and that an unencrypted one is marked. A revoked
// device is notified, and gets no more questions.
func TestChromiumAlert(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.ChromiumPrograms...)
	h := newHousehold(ctx, t, "mailroom")
	receiver := browsertest.NewReceiver(ctx, t, h.push)
	page, worker := browsertest.StartChromium(ctx, t).NewPage(receiver)
	device := h.pair(page)
	h.ring(page)
	for body, flag := range map[string]string{"Deployed": "--encrypt=true",
		"Not encrypted. Deployed": "--encrypt=false"} {
		h.run("signal", "send-alert", "--as", "builder", "--message", "Deployed", "--alert-type", "success", flag)
		worker.Push(h.daemon.phone, receiver.Next())
		got := worker.Shown()
		if got.Title != h.project()+": Success from builder" || got.Body != body {
			t.Errorf("notification %+v; want %q", got, body)
		}
	}
	h.run("signal", "device", "revoke", device)
	page.Eval(`void dispatchEvent(new Event("focus"))`, nil)
	page.Reads("No longer paired")
	out, err := h.command("signal", "ask-question", "--as", "builder", "--question", "Anybody there?").Output()
	if err == nil || !bytes.Contains(out, []byte(`"unavailable"`)) {
		t.Errorf("a question for nobody: %s %v", out, err)
	}
}
