package bridge_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
)

// deliverNotes sends n notes from pm to qa and delivers them into qa's folder by a check.
func (o *office) deliverNotes(n int) {
	o.T.Helper()
	for range n {
		_, err := messages.Send(o.T.Context(), o.Ledger,
			orchestrator.Draft{Sender: "pm", Recipient: "qa", Type: "note", Payload: []byte(`{}`)})
		must(o.T, err)
	}
	o.once()
}

// TestRemovedFolderAcknowledgesNothing checks that nothing is acknowledged if a folder is removed. Its files are
// removed first, and a watch may check in between.
func TestRemovedFolderAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa:")
	o.deliverNotes(5)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	options, looks := o.options(), 0
	options.Rescan = 50 * time.Millisecond
	options.Looked = func() { // the watch waits here
		switch looks++; {
		case looks == 1:
			for _, name := range readNames(t, o.path("qa")) {
				must(t, os.Remove(o.path("qa", name)))
			}
		case looks == 2:
			must(t, os.Remove(o.path("qa")))
		case o.log.told("the folder with 5 delivered messages was removed") == 1:
			cancel()
		}
	}
	counts, err := bridge.Run(ctx, o.Engine, options)
	must(t, err)
	want.Equal(t, "acknowledged", counts.Acknowledged, 0)
	o.wantRows(`SELECT count(*) FROM agent_message WHERE acknowledged_at = ''`, "5")
	must(t, os.RemoveAll(o.path("qa")))
	want.Equal(t, "acknowledged by the next", o.once().Acknowledged, 0)
}

// TestMissedForAMomentAcknowledgesNothing checks that a file must be missing for a while, however often the watch
// checks, because its folder may be about to be removed.
func TestMissedForAMomentAcknowledgesNothing(t *testing.T) {
	bridge.Settle(t, time.Hour)
	o := newOffice(t, "pm", "qa:")
	o.deliverNotes(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	options, looks := o.options(), 0
	options.Rescan = 10 * time.Millisecond
	options.Looked = func() {
		switch looks++; looks {
		case 1:
			for _, name := range readNames(t, o.path("qa")) {
				must(t, os.Remove(o.path("qa", name)))
			}
		case 5:
			cancel()
		}
	}
	counts, err := bridge.Run(ctx, o.Engine, options)
	must(t, err)
	want.Equal(t, "acknowledged", counts.Acknowledged, 0)
}

// TestEmptiedFolderAcknowledgesAll checks that all messages are acknowledged if a recipient takes all files at
// once.
func TestEmptiedFolderAcknowledgesAll(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa:")
	o.deliverNotes(5)
	for _, name := range readNames(t, o.path("qa")) {
		must(t, os.Remove(o.path("qa", name)))
	}
	want.Equal(t, "acknowledged", o.once().Acknowledged, 5)
}

// TestWhatWasOnItsWayOutIsFound checks that the files left in the bin of a watch that was killed while removing
// them are put back by the next watch, without replacing anything, and then processed like any file.
func TestWhatWasOnItsWayOutIsFound(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa", "developer:")
	o.once()
	o.write(note("m1", "pm", "qa"), ".mailroom", "taken.qa.A", "status.json")
	o.write(note("m2", "pm", "qa"), "qa", "status.json")                                // took the name meanwhile
	o.write(note("m3", "pm", "developer"), ".mailroom", "taken.developer.B", "m3.json") // killed while it was put back
	must(t, os.Link(o.path(".mailroom", "taken.developer.B", "m3.json"), o.path("developer", "m3.json")))
	must(t, os.Mkdir(o.path(".mailroom", "taken.qa.C"), 0o700))
	want.Equal(t, "taken in", o.once().TakenIn, 3)
	o.wantRows(`SELECT message_id FROM agent_message ORDER BY message_id`, "m1", "m2", "m3")
	want.Equal(t, "files of qa", len(readNames(t, o.path("qa"))), 0)
	want.Equal(t, "files of developer", strings.Join(readNames(t, o.path("developer")), " "), "m3.json")
	want.Equal(t, "left", strings.Join(readNames(t, o.path(".mailroom")), " "), "clock")
}

// TestFreedNamesLoseNothing checks writers that reuse file names, one as soon as the name is free, the other over
// the old file as soon as that is in the table. Several watches import all messages, each once.
func TestFreedNamesLoseNothing(t *testing.T) {
	t.Parallel()
	const messages = 150
	o := newOffice(t, "pm", "qa", "dev")
	o.once()
	for _, folder := range []string{"qa", "dev"} {
		must(t, os.Mkdir(o.path(folder), 0o700))
	}
	watches := []*watching{o.watch(20 * time.Millisecond), o.watch(20 * time.Millisecond),
		o.watch(20 * time.Millisecond)}
	staged := filepath.Join(t.TempDir(), "next")
	put := func(id, folder string, move func(from, to string) error) error {
		_ = os.Remove(staged) // the link is a separate file
		must(t, os.WriteFile(staged, []byte(note(id, "pm", folder)), 0o600))
		return move(staged, o.path(folder, "msg.json"))
	}
	for i := range messages {
		for put(fmt.Sprint("linked-", i), "qa", os.Link) != nil {
			if err := t.Context().Err(); err != nil {
				t.Fatal(err)
			}
		}
		id := fmt.Sprint("renamed-", i)
		must(t, put(id, "dev", os.Rename))
		for o.count(`SELECT count(*) FROM agent_message WHERE message_id = '`+id+`'`) == 0 {
		}
	}
	// A folder is also empty while a watch has a file in its bin, to check which message the file is.
	watches[0].until(func() bool {
		return len(readNames(t, o.path("qa")))+len(readNames(t, o.path("dev"))) == 0 &&
			o.count(`SELECT count(*) FROM agent_message`) >= 2*messages
	})
	want.Equal(t, "messages", o.count(`SELECT count(*) FROM agent_message`), 2*messages)
	taken := 0
	for _, w := range watches {
		taken += w.stop().TakenIn
	}
	want.Equal(t, "taken in", taken, 2*messages)
}

// TestSpanOfALook checks that imported messages belong to the span of the check that found them, not to that of the
// whole run of the watch. The span contains the result of the check.
func TestSpanOfALook(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa")
	o.write(note("m1", "pm", "qa"), "qa", "m1.json")
	o.once()
	o.wantRows(`SELECT name FROM command_trace JOIN message_trace USING (span_id) WHERE message_id = 'm1'
		AND event = 'created'`, "ralph_watch look")
	o.write(note("m2", "pm", "qa"), "qa", "m2.json")
	o.write("no message", "qa", "m3.json")
	o.Forbid("INSERT", "bridge_problems", `true`, "no problems")
	for range 2 { // the second one only fails
		if _, err := bridge.Once(t.Context(), o.Engine, o.options()); err == nil {
			t.Error("a look that cannot say that m3 is a problem is no failure")
		}
	}
	o.wantRows(`SELECT status FROM command_trace WHERE name = 'ralph_watch look' ORDER BY id`, "OK", "ERROR")
}
