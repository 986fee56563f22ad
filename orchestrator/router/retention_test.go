package router_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

func fileLines(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

func (f *fixture) clear(o retention.ClearOptions) retention.Cleared {
	f.t.Helper()
	cleared, err := retention.ClearOld(f.t.Context(), f.Ledger, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return cleared
}

// The retention table, on a fake clock: delivered is archived, the rest deleted, after seven days and not before; the
// archive goes after 90 days, the trace 90 days after that.
func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	f.addWired("w")
	f.setting("retry.max_retries", "0")
	f.setting("bounce", "off")
	f.wire.set(failing("down"))
	delivered := f.send("a", "b", func(d *orchestrator.Draft) { d.IdempotencyKey = "kept" })
	failed := f.send("a", "w", func(d *orchestrator.Draft) { d.IdempotencyKey = "gone" })
	cancelled := f.send("a", "b")
	if _, err := messages.Cancel(t.Context(), f.Ledger, cancelled, ""); err != nil {
		t.Fatal(err)
	}
	f.deliver()
	f.setting("retry.max_retries", "3")
	expired := f.send("a", "w", func(d *orchestrator.Draft) { d.TTL = time.Second })
	f.clock.advance(time.Second)
	f.deliver()
	want(t, "status", f.message(expired).Status, orchestrator.Lapsed)

	f.clock.advance(7*24*time.Hour - 2*time.Second)
	want(t, "deleted a second early", f.clear(retention.ClearOptions{}).Deleted, 0)
	f.clock.advance(2*time.Second + time.Millisecond)
	cleared := f.clear(retention.ClearOptions{})
	want(t, "deleted", cleared.Deleted, 4)
	for status, n := range cleared.Statuses {
		want(t, "deleted "+string(status), n, 1)
	}
	wantRows(t, f.rows(`SELECT message_id FROM agent_message_archive`), delivered)
	wantRows(t, f.rows(`SELECT key FROM idempotency`), "kept")
	for _, id := range []string{failed, expired, cancelled} {
		wantRows(t, f.rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id DESC LIMIT 1`, id), "deleted")
	}
	stories, err := overview.Trace(t.Context(), f.Ledger, failed)
	if err != nil || !stories[0].Gone || len(stories[0].Events) == 0 {
		t.Errorf("the trace of a deleted message: %+v %v", stories, err)
	}
	// What is unread stays readable although its row is in the archive.
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil || len(ms) != 1 || ms[0].ID != delivered {
		t.Errorf("reading from the archive: %v %v", ms, err)
	}

	// Somebody uses the id again, by hand: both are kept, the second with its number behind the id.
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient) VALUES (?, 'a', 'b')`, delivered)
	f.deliver()
	f.clock.advance(7*24*time.Hour + time.Millisecond)
	want(t, "archived under a used id", f.clear(retention.ClearOptions{}).Statuses[orchestrator.Delivered], 1)
	want(t, "archived rows", len(f.rows(`SELECT 1 FROM agent_message_archive`)), 2)
	f.sql(`DELETE FROM agent_message_archive WHERE seq = (SELECT max(seq) FROM agent_message_archive)`)
	for _, table := range []string{"agent_inbox", "message_trace"} {
		f.sql(`DELETE FROM `+table+` WHERE message_id LIKE ? || '-%'`, delivered)
	}

	f.clock.advance(90*24*time.Hour + time.Millisecond)
	want(t, "deleted from the archive", f.clear(retention.ClearOptions{}).ArchiveDeleted, 1)
	want(t, "keys", len(f.rows(`SELECT 1 FROM idempotency`)), 0)
	want(t, "inbox rows", len(f.rows(`SELECT 1 FROM agent_inbox`)), 0)
	if rows, _, err := retention.ClearTraces(t.Context(), f.Ledger, 0); err != nil || rows == 0 {
		t.Errorf("traces of what was deleted 90 days ago: %d %v", rows, err)
	}
	want(t, "traces of the archived one", len(f.rows(`SELECT 1 FROM message_trace WHERE message_id = ?`, delivered)), 5)
	f.clock.advance(90*24*time.Hour + time.Millisecond)
	if _, _, err := retention.ClearTraces(t.Context(), f.Ledger, 0); err != nil {
		t.Fatal(err)
	}
	want(t, "traces in the end", len(f.rows(`SELECT 1 FROM message_trace`)), 0)
	_, err = messages.Find(t.Context(), f.Ledger, delivered)
	wantCode(t, err, orchestrator.NotFound)
}

// Pages go back to the file system, and what is reported as freed is what the files shrank by.
func TestClearOldFreesSpace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	f.setting("retention.archive", "0")
	big := []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	drafts := make([]orchestrator.Draft, 500)
	for i := range drafts {
		drafts[i] = orchestrator.Draft{Sender: "a", Recipient: "b", Payload: big}
	}
	for range 3 {
		messages.SendBatch(t.Context(), f.Ledger, drafts, false)
	}
	f.deliver()
	for {
		ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(ms) == 0 {
			break
		}
	}
	if _, err := f.Checkpoint(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	before := fileSize(t, f.path) + fileSize(t, f.path+"-wal")
	f.clock.advance(8 * 24 * time.Hour)
	progress := int64(0)
	f.clear(retention.ClearOptions{Progress: func(done, total int64) { progress = max(progress, done) }})
	f.clock.advance(time.Millisecond)
	cleared := f.clear(retention.ClearOptions{})
	after := fileSize(t, f.path) + fileSize(t, f.path+"-wal")
	want(t, "progress", progress, 1500)
	if after >= before/2 || cleared.FreedBytes == 0 {
		t.Errorf("%d bytes before, %d after, %d reported by the last run", before, after, cleared.FreedBytes)
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
