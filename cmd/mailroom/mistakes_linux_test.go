package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// atATerminal runs a shell command line in a terminal of a number of columns until it has printed a text, types
// something, and returns the complete output and the exit status.
func (o *office) atATerminal(columns int, line, until, typed string) (printed string, status int) {
	o.t.Helper()
	env := append(o.command().Env, "NO_COLOR=1", "TERM=xterm")
	term := openTTY(o.t, o.folder, env, columns)
	term.start(line)
	if !term.await(func(text string) bool { return strings.Contains(text, until) }) {
		o.t.Errorf("%s never prints %q, but %q", line, until, term.text)
	}
	status = term.finish(typed)
	return strings.ReplaceAll(term.text, "\r\n", "\n"), status
}

// TestMistakesAtATerminal checks that Ctrl-C ends every waiting command with one closing line and status 130, and
// leaves nothing half done.
func TestMistakesAtATerminal(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	id := o.run("send", "b", "tests are green", "--as", "a")["message_id"].(string)
	for _, c := range []struct{ line, until string }{
		{"mailroom wait a --timeout 5m", "Waiting up to 5m for a message to a. Stop with Ctrl-C.\r\n"},
		{"mailroom wait a --timeout 90 >/dev/null", "Waiting up to 1m30s for a message to a. Stop with Ctrl-C.\r\n"},
		{"mailroom cancel last", "Run `cancel` on this message? [y/N] "},
		{"mailroom tail", "created"},
		{"mailroom ralph watch --root watched", "Stop with Ctrl-C."},
		{"mailroom serve", "Serving"},
	} {
		printed, status := o.atATerminal(80, c.line, c.until, interrupt)
		closed := strings.HasSuffix(printed, "\nmailroom: interrupted\n") ||
			strings.HasSuffix(printed, "\nmailroom: stopped\n")
		if status != 130 || !closed || strings.Count(printed, "mailroom: ") != 1 {
			t.Errorf("%s: exit status %d after %q", c.line, status, printed)
		}
	}
	if status := o.run("show", id)["status"]; status != "pending" && status != "delivered" {
		t.Errorf("the message that was not cancelled is %v", status)
	}
}

// TestSentencesAtATerminal checks that a notice about waiting is printed only if the command has to wait, that
// acknowledge prints what it did, and that a narrow terminal gets records, and errors broken into lines.
func TestSentencesAtATerminal(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	id := o.run("send", "b", "tests are green", "--as", "a")["message_id"].(string)
	for _, c := range []struct {
		columns   int
		line      string
		status    int
		has, lack string
	}{
		{34, "mailroom inbox b", 0, "\n" + id + "\n", ""},
		{34, "mailroom inbx b", 64, "Did you mean inbox?\n", ""},
		{80, "mailroom wait b", 0, "tests are green\n", "Waiting"},
		{80, "mailroom wait b --timeout 0", 0, "No unread messages for b.\n", "Waiting"},
		{80, "mailroom wait b --timeout 1 --json", 0, `"timed_out":true`, "Waiting"},
		{80, "mailroom acknowledge " + id, 0, id + " was acknowledged by b, now.\n", "read at"},
		{80, "mailroom list --frm a", 64, "Did you mean --from?\n", ""},
		{80, "mailroom send b second --as a >/dev/null; mailroom cancel --yes last", 0, "from a to b", "[y/N]"},
	} {
		printed, status := o.atATerminal(c.columns, "sh -c 'echo; "+c.line+"; s=$?; echo ended; exit $s'", "ended",
			"\n")
		if status != c.status || !strings.Contains(printed, c.has) || c.lack != "" &&
			strings.Contains(printed, c.lack) {
			t.Errorf("%s: exit status %d after %q; want %d and %q", c.line, status, printed, c.status, c.has)
		}
	}
	// TERM=dumb and a locale limited to ASCII do not change any text.
	o.env = append(o.env, "LC_ALL=C", "TZ=Nowhere/Nothing")
	o.run("send", "b", "grüße")
	printed, status := o.atATerminal(80, "sh -c 'mailroom read b; echo ended'", "ended", "\n")
	if status != 0 || !strings.Contains(printed, "  grüße\n") {
		t.Errorf("in the locale C: exit status %d after %q", status, printed)
	}
	if _, err := os.Stat(filepath.Join(o.folder, ".mailroom")); err == nil {
		t.Error("a database was made that nobody asked for")
	}
}
