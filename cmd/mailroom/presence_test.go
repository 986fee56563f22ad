package main

import (
	"strings"
	"testing"
)

// TestSendersAreToldOfTheRecipient checks that the answer to a sender contains the presence of the recipient, in each
// vocabulary.
func TestSendersAreToldOfTheRecipient(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "alice", "bob")
	sends := [][]string{
		{"send", "--sender", "alice", "--recipient", "bob", "--message-type", "note", "--payload", `"hello"`},
		{"relay", "send_message", "--source", "alice", "--target", "bob", "--message-type", "DIRECTIVE", "--message",
			"hello"},
		{"--as", "alice", "team", "send-message", "--to", "bob", "--message", `"hello"`},
		{"coral", "send_message", "--sender-id", "alice", "--thread-id", "direct:bob", "--content", "hello"},
	}
	check := func(want any) {
		t.Helper()
		for _, send := range sends {
			known, _ := o.run(send...)["recipient_presence"].(map[string]any)
			if known["bob"] != want {
				t.Errorf("mailroom %s: bob's presence is %v; want %v", strings.Join(send, " "), known["bob"], want)
			}
		}
	}
	check(nil)
	for event, state := range map[string]string{"UserPromptSubmit": "working", "SessionStart": "idle"} {
		hook := o.command("hook", event, "--host", "codex", "--as", "bob")
		hook.Stdin = strings.NewReader(`{"session_id": "one", "prompt": "Go on."}`)
		if out, err := hook.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		check(state)
	}
}
