package main

import (
	"strings"
	"testing"

	"mailroom/commands/surface"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestLongLinesAreInNoSpan checks that a line that cannot be read is rejected, and does not count as a call of the
// command: no span counts it, or fails because of it.
func TestLongLinesAreInNoSpan(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	const good = `{"sender":"a","recipient":"b","message_type":"note","payload":1}` + "\n"
	cmd := o.command("send", "--stdin")
	cmd.Stdin = strings.NewReader(good + strings.Repeat("x", surface.MaxLine+1) + "\n" + good)
	out, _ := cmd.Output()
	want.Equal(t, "exit status", cmd.ProcessState.ExitCode(), 65)
	want.Equal(t, "lines that went well", strings.Count(string(out), `"success":true`), 2)
	want.Rows(t, o.rows(`SELECT sum(CAST(json_extract(attributes,
		'$."messaging.batch.message_count"') AS INTEGER)) || ' ' || count(CASE WHEN status = 'ERROR' THEN 1 END)
		FROM command_trace WHERE name = 'send'`), "2 0")
}
