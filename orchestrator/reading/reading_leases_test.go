package reading_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/retention"
)

// backlogOf returns what status reports about an agent: the unread messages, and how many of them are shown.
func backlogOf(f *enginetest.Fixture, agent string) (unread, shown int64) {
	f.T.Helper()
	s, err := overview.Status(f.T.Context(), f.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, b := range s.Recipients {
		if b.Recipient == agent {
			return b.Unread, b.Shown
		}
	}
	return 0, 0
}

// TestReadingLease checks that a message under a lease is shown and not read: nobody else gets it; status, receipts,
// why and the audits count it as unread; and it is unread in its old position when the lease ends.
func TestReadingLease(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	first, second := f.Send("a", "b"), f.Send("a", "b")
	ms := f.TakeFor("b", time.Minute)
	want.IDs(t, ms, first, second)
	want.Equal(t, "until", ms[0].ShownUntil, "2026-01-02T03:05:05.000Z")
	third := f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", 0), third)
	want.Equal(t, "read at", f.Message(first).ReadAt, "")
	unread, shown := backlogOf(f, "b")
	want.Equal(t, "unread", unread, 2)
	want.Equal(t, "shown", shown, 2)
	reasons, err := overview.Why(t.Context(), f.Ledger, first)
	if err != nil {
		t.Fatal(err)
	}
	if rule := reasons[0].Rule; !strings.Contains(rule,
		"shown to wait at 2026-01-02T03:04:05.000Z, not yet confirmed") {
		t.Errorf("why: %s", rule)
	}
	want.Equal(t, "last receipt", reasons[0].Receipts[len(reasons[0].Receipts)-1].What, "shown")

	f.Clock.Advance(time.Minute - time.Millisecond)
	want.IDs(t, f.TakeFor("b", 0))
	f.Clock.Advance(time.Millisecond)
	fourth := f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", 0), first, second, fourth)
	want.Rows(t, f.Rows(`SELECT event, error FROM message_trace WHERE message_id = ?
		AND event NOT IN ('created','delivered') ORDER BY id`, first),
		"shown to wait, until 2026-01-02T03:05:05.000Z unless the message is acknowledged",
		"released wait did not acknowledge the message by 2026-01-02T03:05:05.000Z; unread again", "read ")
	want.Rows(t, f.Rows(`SELECT 1 FROM reading_lease`))
}

// TestReadingLeaseOverWithoutADaemon checks that status and why treat an expired lease as over, even if no process
// has removed it.
func TestReadingLeaseOverWithoutADaemon(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", time.Minute), id)
	f.Clock.Advance(time.Hour)
	unread, shown := backlogOf(f, "b")
	want.Equal(t, "unread", unread, 1)
	want.Equal(t, "shown", shown, 0)
	s, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "next due", s.NextDueAt, "2026-01-02T04:04:05.000Z")
	reasons, err := overview.Why(t.Context(), f.Ledger, id)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "rule", reasons[0].Rule,
		"delivered; shown to wait at 2026-01-02T03:04:05.000Z but not confirmed, so it has been unread again since 2026-01-02T03:05:05.000Z")
	want.Equal(t, "fix", reasons[0].Fix, "To read it, run `mailroom wait --recipient b`")
	want.Rows(t, f.Rows(`SELECT count(*) FROM reading_lease`), "1")
	want.IDs(t, f.TakeFor("b", 0), id)
}

// TestReadingLeaseEndsWithAcknowledgement checks that an acknowledgement ends a lease for good, in time or late, also
// when another message carries it. An answer alone does not.
func TestReadingLeaseEndsWithAcknowledgement(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	direct, withAnswer, late, answered := f.Send("a", "b"), f.Send("a", "b"), f.Send("a", "b"), f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", time.Minute), direct, withAnswer, late, answered)
	acknowledge := func(id string) {
		t.Helper()
		if _, err := messages.Acknowledge(t.Context(), f.Ledger, id, "b"); err != nil {
			t.Fatal(err)
		}
	}
	acknowledge(direct)
	f.Send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo, d.Acknowledges = withAnswer, true })
	f.Send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo = answered })
	want.Rows(t, f.Rows(`SELECT message_id FROM reading_lease ORDER BY message_id`), late, answered)
	want.Equal(t, "read at", f.Message(withAnswer).ReadAt, "2026-01-02T03:04:05.000Z")
	f.Clock.Advance(time.Minute)
	f.Deliver()
	acknowledge(late)
	want.IDs(t, f.TakeFor("b", time.Minute), answered)
	acknowledge(answered)
	f.Clock.Advance(time.Hour)
	want.IDs(t, f.TakeFor("b", 0))
	unread, shown := backlogOf(f, "b")
	want.Equal(t, "unread", unread+shown, 0)
}

// TestReadingLeaseOutlastsTTL checks that a message does not expire during a lease. If the lease ends after the TTL,
// the message expires.
func TestReadingLeaseOutlastsTTL(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	short := func(d *orchestrator.Draft) { d.TTL = 10 * time.Second }
	kept, lost := f.Send("a", "b", short), f.Send("a", "b", short)
	want.IDs(t, f.TakeFor("b", time.Minute), kept, lost)
	f.Clock.Advance(30 * time.Second)
	f.Deliver()
	want.Equal(t, "under the lease", f.Message(kept).Status, orchestrator.Delivered)
	f.Clock.Advance(30 * time.Second)
	want.Equal(t, "next run, at the end of the lease", f.NextDue(), f.Stamp())
	f.Clock.Advance(-30 * time.Second)
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, kept, "b"); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(30 * time.Second)
	f.Deliver()
	want.Equal(t, "acknowledged", f.Message(kept).Status, orchestrator.Delivered)
	want.Equal(t, "come back", f.Message(lost).Status, orchestrator.Expired)
	want.IDs(t, f.TakeFor("b", 0))
}

// TestReadingLeaseWrittenByHand checks that hand-written rows do no harm: a read message stays read, and a lease
// longer than the maximum is ended.
func TestReadingLeaseWrittenByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	read, unread, forged := f.Send("a", "b"), f.Send("a", "b"), f.Send("a", "b")
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	want.IDs(t, ms, read)
	far := `INSERT INTO reading_lease (message_id, recipient, pid, shown_at, until) VALUES (?, ?, ?, ?, ?)`
	f.SQL(far, read, "b", 0, "", "")
	f.SQL(far, unread, "b", -1, "soon", "9999-12-31T23:59:59.999Z")
	if f.OnServer() {
		f.SQL(far, "msg-none", "nobody", -2, "17", "zzz")
	} else {
		f.SQL(far, "msg-none", "nobody", "x", 17, "zzz")
		f.SQL(far, []byte{0xff}, []byte{0xff}, []byte{1}, []byte{0xfe}, []byte{0xff, 0xff})
		f.SQL(far, []byte{0xff}, "b", 1, "", "")
	}
	f.SQL(`UPDATE reading_lease SET pid = ?, host = 'elsewhere' WHERE message_id = 'msg-none'`, 1<<40)
	n, shown := backlogOf(f, "b")
	want.Equal(t, "unread", n, 2)
	want.Equal(t, "shown", shown, 0)
	want.IDs(t, f.TakeFor("b", 0), unread, forged)
	f.SQL(`UPDATE agent_inbox SET read_at = '' WHERE message_id = ?`, forged)
	f.SQL(`UPDATE agent_message SET read_at = '' WHERE message_id = ?`, forged)
	want.IDs(t, f.TakeFor("b", time.Minute), forged)
	f.SQL(`UPDATE reading_lease SET until = '9999' WHERE message_id = ?`, forged)
	f.Deliver()
	longest := "2026-01-03T03:04:05.000Z"
	left := 4
	if f.OnServer() {
		left = 3
	}
	want.Rows(t, f.Rows(`SELECT count(*), min(until), max(until) FROM reading_lease`),
		fmt.Sprint(left, " ", longest, " ", longest))
	f.Clock.Advance(messages.MaxReadingLease)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT message_id FROM reading_lease`))
	want.IDs(t, f.TakeFor("b", 0), forged)
	f.SQL(`INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('b', 'by-hand', '1')`)
	want.IDs(t, f.TakeFor("b", time.Minute), "by-hand") // a row without a message cannot be acknowledged, so it is read
	f.Clock.Advance(time.Hour)
	want.IDs(t, f.TakeFor("b", 0))
}

// TestReadingLeaseOfArchived checks that a message that was archived under a lease becomes unread in the archive.
func TestReadingLeaseOfArchived(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	want.IDs(t, f.TakeFor("b", time.Hour), id)
	f.Clear(retention.ClearOptions{})
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message_archive`), id)
	f.Clock.Advance(time.Hour)
	want.IDs(t, f.TakeFor("b", time.Hour), id)
	if _, released, err := messages.Release(t.Context(), f.Ledger, id, "b"); err != nil || !released {
		t.Fatal(released, err)
	}
	want.IDs(t, f.TakeFor("b", 0), id)
}

// TestReadingLeaseOfTheGone checks that no lease remains when its agent is removed or a backup is restored: the
// messages are unread.
func TestReadingLeaseOfTheGone(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	f := enginetest.New(t, "a", "b", "c")
	ofB, ofC := f.Send("a", "b"), f.Send("a", "c")
	want.IDs(t, f.TakeFor("b", time.Hour), ofB)
	want.IDs(t, f.TakeFor("c", time.Hour), ofC)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := f.BackupTo(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b", Force: true}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT recipient FROM reading_lease`), "c")
	want.Equal(t, "unread of the removed", f.Message(ofB).ReadAt, "")
	if _, err := f.Restore(t.Context(), backup, true); err != nil {
		t.Fatal(err)
	}
	want.IDs(t, f.TakeFor("b", 0), ofB)
	want.IDs(t, f.TakeFor("c", 0), ofC)
}

// TestUnreadUnderALease checks that an answer that cannot be written ends the leases that it made, and no later ones.
func TestUnreadUnderALease(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	first := f.TakeFor("b", time.Hour)
	want.IDs(t, first, id)
	if err := reading.Unread(t.Context(), f.Ledger, first); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(time.Second)
	want.IDs(t, f.TakeFor("b", time.Hour), id)
	if err := reading.Unread(t.Context(), f.Ledger, first); err != nil { // a late call of the first reader
		t.Fatal(err)
	}
	want.IDs(t, f.TakeFor("b", time.Hour))
	want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created", "delivered",
		"shown", "released", "shown")
}

func TestReadingLeaseBounds(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "b")
	for _, o := range []reading.Options{
		{Lease: messages.ReadingLease{For: time.Second - 1}}, {Lease: messages.ReadingLease{For: -time.Second}},
		{Lease: messages.ReadingLease{For: 24*time.Hour + 1}},
		{Lease: messages.ReadingLease{For: time.Second}, Peek: true},
		{Lease: messages.ReadingLease{For: time.Second}, Posts: true},
	} {
		o.Recipient, o.Limit = "b", 1
		_, _, err := reading.Wait(t.Context(), f.Ledger, o)
		want.Code(t, err, orchestrator.InvalidParams)
	}
}

// TestReadingLeaseOfAKilledProcess checks that a waiter gets the messages of a killed reader at once, and none while
// the reader lives.
func TestReadingLeaseOfAKilledProcess(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	reader := exec.Command("sleep", "1000")
	if err := reader.Start(); err != nil {
		t.Skip("there is no sleep to be the reader:", err)
	}
	defer reader.Process.Kill()
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{
		Recipient: "b", Limit: 1,
		Lease: messages.ReadingLease{For: time.Hour, Holder: "wait", Reader: process.Of(reader.Process.Pid)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want.IDs(t, ms, id)
	want.IDs(t, f.TakeFor("b", 0))
	f.Clock.Advance(2 * time.Second)
	f.Deliver()
	want.IDs(t, f.TakeFor("b", 0))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type taken struct {
		ms  []orchestrator.Message
		err error
	}
	waiting := make(chan taken, 1)
	go func() {
		ms, _, err := reading.Wait(ctx, f.Open().Ledger, reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour})
		waiting <- taken{ms, err}
	}()
	reader.Process.Kill()
	reader.Wait()
	got := <-waiting
	if got.err != nil {
		t.Fatal(got.err)
	}
	want.IDs(t, got.ms, id)
	want.Rows(t, f.Rows(`SELECT error FROM message_trace WHERE message_id = ? AND event = 'released'`, id),
		fmt.Sprintf("wait (process %d) has ended; unread again", reader.Process.Pid))

	// A daemon also detects the death of a reader, and does not mistake another process with the same number for the
	// reader.
	other := f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", time.Hour), other)
	f.SQL(`UPDATE reading_lease SET pid = ?, host = (SELECT host FROM reading_lease), born = 'before'`, 1)
	f.Clock.Advance(2 * time.Second)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT message_id FROM reading_lease`), other) // unknown if a remote process lives
}

// TestNeverTwoReadersUnderALease checks that no reader gets a message of another, however many readers take messages
// under leases at the same time, and whether or not they acknowledge.
func TestNeverTwoReadersUnderALease(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	const sent = 30
	ids := map[string]bool{}
	for range sent {
		ids[f.Send("a", "b")] = true
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	holder, done, shown := map[string]int{}, map[string]bool{}, 0
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done) == sent
	}
	var wg sync.WaitGroup
	for reader := range 4 {
		r := f.Open()
		wg.Go(func() {
			for n := 0; ctx.Err() == nil && !over(); n++ {
				ms, _, err := reading.Wait(ctx, r.Ledger,
					reading.Options{Recipient: "b", Limit: 3,
						Lease: messages.ReadingLease{For: time.Hour, Holder: "wait"}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, m := range ms {
					shown++
					if by, held := holder[m.ID]; held || done[m.ID] {
						t.Errorf("reader %d gets %s, which reader %d has", reader, m.ID, by)
					}
					holder[m.ID] = reader
				}
				mu.Unlock()
				for _, m := range ms {
					mu.Lock()
					delete(holder, m.ID)
					finish := n%2 == 0
					done[m.ID] = finish || done[m.ID]
					if !finish {
						delete(done, m.ID)
					}
					mu.Unlock()
					if finish {
						_, err = messages.Acknowledge(ctx, r.Ledger, m.ID, "b")
					} else {
						_, _, err = messages.Release(ctx, r.Ledger, m.ID, "b")
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	want.Equal(t, "acknowledged", len(f.Rows(`SELECT 1 FROM agent_message WHERE acknowledged_at <> ''`)), sent)
	want.Rows(t, f.Rows(`SELECT 1 FROM reading_lease`))
}
