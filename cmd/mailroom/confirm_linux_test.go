package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestConfirmations checks that a person at a terminal is asked before an action that cannot be undone, and that with
// --yes, or without a person to ask, the action is performed immediately.
func TestConfirmations(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "ann", "bob", "cid", "dan")
	o.run("group", "set", "team", "ann", "bob")
	for range 2 {
		o.command("send", "nobody", "hello").Run() // a dead letter
	}
	message, _ := o.run("send", "ann", "hello", "--not-before", "1h")["message_id"].(string)
	o.env = append(o.env, "LC_ALL=C.UTF-8")
	for _, c := range []struct {
		command, answer, asks string
		ends                  int
	}{
		{"agent remove bob", "n\n", `the agent bob\. .* Continue\? \[y/N\] `, 64},
		{"agent remove bob", "\n", `Continue\?`, 64},
		{"agent remove bob", "\x04", `Continue\?`, 64},
		{"agent remove bob", "y\n", `Continue\?`, 0},
		{"agent remove bob", "y\n", `Continue\?`, 66}, // it is gone
		{"agent remove cid --yes", "", "", 0},
		{"agent remove dan </dev/null", "", "", 0},
		{"group delete team", "yes\n", `the group team\. Continue\?`, 0},
		{"cancel " + message, "n\n", message + `\. Mailroom will never .* Continue\?`, 64},
		{"cancel last", "y\n", `on this message\?`, 0}, // asked once
		{"clear_traces", "y\n", `Continue\?`, 0},
		{"clear_old", "y\n", `Continue\?`, 0},
		{"clear_old --json", "", "", 0},
		{"clear_old | cat", "", "", 0},
		{"dead_letters replay --all", "y\n", `This sends 2 dead letters again\. Continue\?`, 0},
		{"dead_letters replay " + message, "", "", 65}, // it is not a dead letter
		{"--db new.db migrate --from \"" + o.db + "\"", "n\n",
			`from ` + regexp.QuoteMeta(o.db) + ` to .*/new\.db\. .* Continue\?`, 64},
		{"status", "", "", 0},
	} {
		until := ""
		if c.asks != "" {
			until = "[y/N] "
		}
		printed, status := o.atATerminal(300, "sh -c 'mailroom "+c.command+"'", until, c.answer)
		if status != c.ends || !regexp.MustCompile(c.asks).MatchString(printed) {
			t.Errorf("%s ends with %d; want %d and %s: %q", c.command, status, c.ends, c.asks, printed)
		}
		if asked := strings.Count(printed, "[y/N]"); asked != min(1, len(c.asks)) {
			t.Errorf("%s asks %d times: %q", c.command, asked, printed)
		}
	}
}

// TestConfirmationIsNotTypedAhead checks that a yes typed before the question does not answer it.
func TestConfirmationIsNotTypedAhead(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "bob")
	term := openTTY(t, o.folder, o.command().Env, 300, "-c", "echo ready; read -r _; exec mailroom agent remove bob")
	term.await(func(text string) bool { return strings.Contains(text, "ready") })
	fmt.Fprint(term.master, "\ny\n")
	term.await(func(text string) bool { return strings.HasSuffix(text, "[y/N] ") })
	if status := term.finish("n\n"); status != 64 {
		t.Errorf("it ends with status %d; want 64: %q", status, term.text)
	}
}
