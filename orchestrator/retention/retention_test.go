package retention_test

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// TestRetention checks the retention table, on a fake clock. After seven days and not before, delivered messages are
// archived and the others deleted. The archive is deleted after 90 days, and the trace 90 days later.
func TestRetention(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	f.Set("retry.max_retries", "0")
	f.Set("bounce", "off")
	f.Wire.Set(enginetest.Failing("down"))
	delivered := f.Send("a", "b", func(d *orchestrator.Draft) { d.IdempotencyKey = "kept" })
	failed := f.Send("a", "w", func(d *orchestrator.Draft) { d.IdempotencyKey = "gone" })
	cancelled := f.Send("a", "b")
	if _, err := messages.Cancel(t.Context(), f.Ledger, cancelled, ""); err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	f.Set("retry.max_retries", "3")
	expired := f.Send("a", "w", func(d *orchestrator.Draft) { d.TTL = time.Second })
	f.Clock.Advance(time.Second)
	f.Deliver()
	want.Equal(t, "status", f.Message(expired).Status, orchestrator.Expired)

	f.Clock.Advance(7*24*time.Hour - 2*time.Second)
	want.Equal(t, "deleted a second early", f.Clear(retention.ClearOptions{}).Deleted, 0)
	f.Clock.Advance(2*time.Second + time.Millisecond)
	cleared := f.Clear(retention.ClearOptions{})
	want.Equal(t, "deleted", cleared.Deleted, 4)
	for status, n := range cleared.Statuses {
		want.Equal(t, "deleted "+string(status), n, 1)
	}
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message_archive`), delivered)
	want.Rows(t, f.Rows(`SELECT key FROM idempotency`), "kept")
	for _, id := range []string{failed, expired, cancelled} {
		want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id DESC LIMIT 1`, id),
			"deleted")
	}
	stories, err := overview.Trace(t.Context(), f.Ledger, failed)
	if err != nil || !stories[0].Gone || len(stories[0].Events) == 0 {
		t.Errorf("the trace of a deleted message: %+v %v", stories, err)
	}
	// An unread message stays readable although its row is in the archive.
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil || len(ms) != 1 || ms[0].ID != delivered {
		t.Errorf("reading from the archive: %v %v", ms, err)
	}

	// Another program uses the id again: both messages are kept, the second with its seq appended to the id.
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient) VALUES (?, 'a', 'b')`, delivered)
	f.Deliver()
	f.Clock.Advance(7*24*time.Hour + time.Millisecond)
	want.Equal(t, "archived under a used id", f.Clear(retention.ClearOptions{}).Statuses[orchestrator.Delivered], 1)
	want.Equal(t, "archived rows", len(f.Rows(`SELECT 1 FROM agent_message_archive`)), 2)
	f.SQL(`DELETE FROM agent_message_archive WHERE seq = (SELECT max(seq) FROM agent_message_archive)`)
	for _, table := range []string{"agent_inbox", "message_trace"} {
		f.SQL(`DELETE FROM `+table+` WHERE message_id LIKE ? || '-%'`, delivered)
	}

	f.Clock.Advance(90*24*time.Hour + time.Millisecond)
	want.Equal(t, "deleted from the archive", f.Clear(retention.ClearOptions{}).ArchiveDeleted, 1)
	want.Equal(t, "keys", len(f.Rows(`SELECT 1 FROM idempotency`)), 0)
	want.Equal(t, "inbox rows", len(f.Rows(`SELECT 1 FROM agent_inbox`)), 0)
	if rows, _, err := retention.ClearTraces(t.Context(), f.Ledger, 0); err != nil || rows == 0 {
		t.Errorf("traces of what was deleted 90 days ago: %d %v", rows, err)
	}
	want.Equal(t, "traces of the archived one",
		len(f.Rows(`SELECT 1 FROM message_trace WHERE message_id = ?`, delivered)), 5)
	f.Clock.Advance(90*24*time.Hour + time.Millisecond)
	if _, _, err := retention.ClearTraces(t.Context(), f.Ledger, 0); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "traces in the end", len(f.Rows(`SELECT 1 FROM message_trace`)), 0)
	_, err = messages.Find(t.Context(), f.Ledger, delivered)
	want.Code(t, err, orchestrator.NotFound)
}

// TestSetBackBetweenBatches checks that messages that another program sets to pending while ClearOld works are kept
// and delivered.
func TestSetBackBetweenBatches(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	f.Set("bounce", "off")
	messages.SendBatch(t.Context(), f.Ledger, slices.Repeat([]orchestrator.Draft{{Sender: "a", Recipient: "b"}}, 500),
		false)
	f.Deliver()
	f.Clock.Advance(time.Second)
	f.Wire.Set(enginetest.Refusing(orchestrator.ErrRefused))
	delivered, failed := f.Send("a", "b"), f.Send("a", "w")
	f.Deliver()
	want.Equal(t, "status", f.Message(failed).Status, orchestrator.Failed)
	f.Wire.Set(nil)
	f.Clock.Advance(week + time.Millisecond)
	setBack := sync.OnceFunc(func() { f.SQL(`UPDATE agent_message SET status = 'pending'`) })
	cleared := f.Clear(retention.ClearOptions{Progress: func(int64, int64) { setBack() }})
	want.Equal(t, "cleared", cleared.Deleted, 500)
	want.Rows(t, f.Rows(`SELECT message_id, status FROM agent_message ORDER BY seq`), delivered+" pending",
		failed+" pending")
	want.Equal(t, "delivered afterwards", f.Deliver().Delivered, 2)
	want.Rows(t, f.Wire.IDs(), failed)
}

// TestStuckRowsStay checks that messages, posts and archived messages that cannot be deleted stay, and that all
// others are cleared.
func TestStuckRowsStay(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	sent := []string{}
	for range 7 {
		sent = append(sent, f.Send("a", "b"))
	}
	th := f.Thread("a", "b")
	var posts []string
	for range 4 {
		posts = append(posts, f.MustPost(th.ID, "a").MessageID)
	}
	f.Take("b")
	f.CloseThread(th.ID)
	f.Deliver()
	stuck := []string{sent[0], sent[3], posts[1]}
	allow := f.Forbid("DELETE", "agent_message", `OLD.message_id IN ('`+strings.Join(stuck, `', '`)+`')`, "kept")
	if f.OnServer() {
		stuck = append(stuck, posts[2])
		f.SQL(`CREATE TABLE notes (message_id text REFERENCES agent_message (message_id));
			INSERT INTO notes VALUES ('` + posts[2] + `')`)
	}
	f.Forbid("DELETE", "agent_message_archive", `OLD.message_id = '`+sent[1]+`'`, "kept")
	f.Clock.Advance(week + time.Millisecond)
	all := len(f.Rows(`SELECT 1 FROM agent_message`))
	for _, n := range []int{all - len(stuck), 0} {
		want.Equal(t, "cleared", f.Clear(retention.ClearOptions{}).Deleted, int64(n))
		want.Rows(t, f.Rows(`SELECT message_id FROM agent_message ORDER BY seq`), stuck...)
	}
	f.Clock.Advance(90*24*time.Hour + time.Millisecond)
	f.Clear(retention.ClearOptions{})
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message_archive`), sent[1])
	if allow(); f.OnServer() {
		f.SQL(`DROP TABLE notes`)
	}
	want.Equal(t, "cleared in the end", f.Clear(retention.ClearOptions{}).Deleted, int64(len(stuck)))
}

// TestManyStuckRows checks that ClearOld gives up if very many rows cannot be deleted.
func TestManyStuckRows(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server takes a quarter of a minute to refuse so many")
	f := enginetest.New(t, "a", "b")
	for range 2 {
		messages.SendBatch(t.Context(), f.Ledger,
			slices.Repeat([]orchestrator.Draft{{Sender: "a", Recipient: "b"}}, 600), false)
	}
	f.Deliver()
	f.Forbid("DELETE", "agent_message", `true`, "kept")
	f.Clock.Advance(week + time.Millisecond)
	_, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{})
	want.Code(t, err, orchestrator.InvalidParams)
	want.Equal(t, "messages", f.Count("agent_message"), "1200")
}

// TestTraceOfAnIDUsedAgain checks that the trace of an id that another program uses again is kept, also if the
// message is in the archive, and however long ago the first message with that id was deleted.
func TestTraceOfAnIDUsedAgain(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id, gone := f.Send("a", "b"), f.Send("a", "b")
	for _, cancelled := range []string{id, gone} {
		if _, err := messages.Cancel(t.Context(), f.Ledger, cancelled, ""); err != nil {
			t.Fatal(err)
		}
	}
	f.Clock.Advance(week + time.Millisecond)
	want.Equal(t, "deleted", f.Clear(retention.ClearOptions{}).Deleted, 2)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient) VALUES (?, 'a', 'b')`, id)
	f.Take("b")
	f.Clock.Advance(90*24*time.Hour + time.Millisecond)
	want.Equal(t, "archived", f.Clear(retention.ClearOptions{}).Statuses[orchestrator.Delivered], 1)
	if _, _, err := retention.ClearTraces(t.Context(), f.Ledger, 0); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT DISTINCT message_id FROM message_trace`), id)
	want.Rows(t, f.Rows(`SELECT event FROM message_trace ORDER BY id LIMIT 1`), "created")
}

// TestClearOldFreesSpace checks that pages are given back to the file system, and that the reported size equals the
// decrease of the files.
func TestClearOldFreesSpace(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server gives its space back by itself")
	f := enginetest.New(t, "a", "b")
	f.Set("retention.archive", "0")
	big := []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	drafts := make([]orchestrator.Draft, 500)
	for i := range drafts {
		drafts[i] = orchestrator.Draft{Sender: "a", Recipient: "b", Payload: big}
	}
	for range 3 {
		messages.SendBatch(t.Context(), f.Ledger, drafts, false)
	}
	f.Deliver()
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
	before := fileSize(t, f.Path) + fileSize(t, f.Path+"-wal")
	f.Clock.Advance(8 * 24 * time.Hour)
	progress := int64(0)
	f.Clear(retention.ClearOptions{Progress: func(done, total int64) { progress = max(progress, done) }})
	f.Clock.Advance(time.Millisecond)
	cleared := f.Clear(retention.ClearOptions{})
	after := fileSize(t, f.Path) + fileSize(t, f.Path+"-wal")
	want.Equal(t, "progress", progress, 1500)
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
