package router_test

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
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// takeFor takes what is unread for an agent, under a lease unless that is 0.
func (f *fixture) takeFor(agent string, lease time.Duration) (ms []orchestrator.Message) {
	f.t.Helper()
	ms, _, err := reading.Wait(f.t.Context(), f.Ledger, reading.Options{
		Recipient: agent, Limit: 10, Lease: messages.ReadingLease{For: lease, Holder: "wait"},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return ms
}

// wantTaken fails unless these messages were taken, in this order.
func wantTaken(t *testing.T, ms []orchestrator.Message, ids ...string) {
	t.Helper()
	got := make([]string, len(ms))
	for i := range ms {
		got[i] = ms[i].ID
	}
	wantRows(t, got, ids...)
}

// backlogOf is what status says of an agent: unread, and shown of those.
func (f *fixture) backlogOf(agent string) (unread, shown int64) {
	f.t.Helper()
	s, err := overview.Status(f.t.Context(), f.Ledger)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, b := range s.Recipients {
		if b.Recipient == agent {
			return b.Unread, b.Shown
		}
	}
	return 0, 0
}

// Under a lease a message is shown and not read: nobody else gets it, status, receipts, why and the audits count it as
// unread, and it comes back in its order when the lease ends.
func TestReadingLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	first, second := f.send("a", "b"), f.send("a", "b")
	ms := f.takeFor("b", time.Minute)
	wantTaken(t, ms, first, second)
	want(t, "until", ms[0].ShownUntil, "2026-01-02T03:05:05.000Z")
	third := f.send("a", "b")
	wantTaken(t, f.takeFor("b", 0), third)
	want(t, "read at", f.message(first).ReadAt, "")
	unread, shown := f.backlogOf("b")
	want(t, "unread", unread, 2)
	want(t, "shown", shown, 2)
	reasons, err := overview.Why(t.Context(), f.Ledger, first)
	if err != nil {
		t.Fatal(err)
	}
	if rule := reasons[0].Rule; !strings.Contains(rule, "shown to wait at 2026-01-02T03:04:05.000Z, not yet confirmed") {
		t.Errorf("why: %s", rule)
	}
	want(t, "last receipt", reasons[0].Receipts[len(reasons[0].Receipts)-1].What, "shown")

	f.clock.advance(time.Minute - time.Millisecond)
	wantTaken(t, f.takeFor("b", 0))
	f.clock.advance(time.Millisecond)
	fourth := f.send("a", "b")
	wantTaken(t, f.takeFor("b", 0), first, second, fourth)
	wantRows(t, f.rows(`SELECT event, error FROM message_trace WHERE message_id = ? AND event NOT IN ('created','delivered') ORDER BY id`, first),
		"shown to wait, until 2026-01-02T03:05:05.000Z unless it is acknowledged",
		"released wait has not acknowledged it by 2026-01-02T03:05:05.000Z; unread again", "read ")
	wantRows(t, f.rows(`SELECT 1 FROM reading_lease`))
}

// A lease that is over is over in status and why, too, while nobody is there to take it back.
func TestReadingLeaseOverWithoutADaemon(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	id := f.send("a", "b")
	wantTaken(t, f.takeFor("b", time.Minute), id)
	f.clock.advance(time.Hour)
	unread, shown := f.backlogOf("b")
	want(t, "unread", unread, 1)
	want(t, "shown", shown, 0)
	s, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "next due", s.NextDueAt, "2026-01-02T04:04:05.000Z")
	reasons, err := overview.Why(t.Context(), f.Ledger, id)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "rule", reasons[0].Rule,
		"delivered; shown to wait at 2026-01-02T03:04:05.000Z, and not confirmed: unread again since 2026-01-02T03:05:05.000Z")
	want(t, "fix", reasons[0].Fix, "`mailroom wait --recipient b` reads it")
	wantRows(t, f.rows(`SELECT count(*) FROM reading_lease`), "1")
	wantTaken(t, f.takeFor("b", 0), id)
}

// Acknowledging ends a lease for good, in time or late, also with the message that says so; an answer alone does not.
func TestReadingLeaseEndsWithAcknowledgement(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	direct, withAnswer, late, answered := f.send("a", "b"), f.send("a", "b"), f.send("a", "b"), f.send("a", "b")
	wantTaken(t, f.takeFor("b", time.Minute), direct, withAnswer, late, answered)
	acknowledge := func(id string) {
		t.Helper()
		if _, err := messages.Acknowledge(t.Context(), f.Ledger, id, "b"); err != nil {
			t.Fatal(err)
		}
	}
	acknowledge(direct)
	f.send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo, d.Acknowledges = withAnswer, true })
	f.send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo = answered })
	wantRows(t, f.rows(`SELECT message_id FROM reading_lease ORDER BY message_id`), late, answered)
	want(t, "read at", f.message(withAnswer).ReadAt, "2026-01-02T03:04:05.000Z")
	f.clock.advance(time.Minute)
	f.deliver()
	acknowledge(late)
	wantTaken(t, f.takeFor("b", time.Minute), answered)
	acknowledge(answered)
	f.clock.advance(time.Hour)
	wantTaken(t, f.takeFor("b", 0))
	unread, shown := f.backlogOf("b")
	want(t, "unread", unread+shown, 0)
}

// A message does not expire under its reader; what comes back after its time does.
func TestReadingLeaseOutlastsTTL(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	short := func(d *orchestrator.Draft) { d.TTL = 10 * time.Second }
	kept, lost := f.send("a", "b", short), f.send("a", "b", short)
	wantTaken(t, f.takeFor("b", time.Minute), kept, lost)
	f.clock.advance(30 * time.Second)
	f.deliver()
	want(t, "under the lease", f.message(kept).Status, orchestrator.Delivered)
	f.clock.advance(30 * time.Second)
	want(t, "next run, at the end of the lease", f.nextDue(), f.stamp())
	f.clock.advance(-30 * time.Second)
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, kept, "b"); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(30 * time.Second)
	f.deliver()
	want(t, "acknowledged", f.message(kept).Status, orchestrator.Delivered)
	want(t, "come back", f.message(lost).Status, orchestrator.Lapsed)
	wantTaken(t, f.takeFor("b", 0))
}

// Rows that somebody wrote by hand harm nothing: what was read stays read, and a time beyond the longest is taken back.
func TestReadingLeaseWrittenByHand(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	read, unread, forged := f.send("a", "b"), f.send("a", "b"), f.send("a", "b")
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	wantTaken(t, ms, read)
	far := `INSERT INTO reading_lease (message_id, recipient, pid, shown_at, until) VALUES (?, ?, ?, ?, ?)`
	f.sql(far, read, "b", 0, "", "")
	f.sql(far, unread, "b", -1, "soon", "9999-12-31T23:59:59.999Z")
	f.sql(far, "msg-none", "nobody", "x", 17, "zzz")
	f.sql(far, []byte{0xff}, []byte{0xff}, []byte{1}, []byte{0xfe}, []byte{0xff, 0xff})
	f.sql(far, []byte{0xff}, "b", 1, "", "")
	f.sql(`UPDATE reading_lease SET pid = 1 << 40, host = 'elsewhere' WHERE message_id = 'msg-none'`)
	n, shown := f.backlogOf("b")
	want(t, "unread", n, 2)
	want(t, "shown", shown, 0)
	wantTaken(t, f.takeFor("b", 0), unread, forged)
	f.sql(`UPDATE agent_inbox SET read_at = '' WHERE message_id = ?`, forged)
	f.sql(`UPDATE agent_message SET read_at = '' WHERE message_id = ?`, forged)
	wantTaken(t, f.takeFor("b", time.Minute), forged)
	f.sql(`UPDATE reading_lease SET until = '9999' WHERE message_id = ?`, forged)
	f.deliver()
	longest := "2026-01-03T03:04:05.000Z"
	wantRows(t, f.rows(`SELECT count(*), min(until), max(until) FROM reading_lease`), "4 "+longest+" "+longest)
	f.clock.advance(messages.MaxReadingLease)
	f.deliver()
	wantRows(t, f.rows(`SELECT message_id FROM reading_lease`))
	wantTaken(t, f.takeFor("b", 0), forged)
	f.sql(`INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('b', 'by-hand', '1')`)
	wantTaken(t, f.takeFor("b", time.Minute), "by-hand") // it could never be acknowledged, so that it is read
	f.clock.advance(time.Hour)
	wantTaken(t, f.takeFor("b", 0))
}

// What is archived under a lease comes back from the archive.
func TestReadingLeaseOfArchived(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	id := f.send("a", "b")
	f.deliver()
	f.clock.advance(8 * 24 * time.Hour)
	wantTaken(t, f.takeFor("b", time.Hour), id)
	f.clear(retention.ClearOptions{})
	wantRows(t, f.rows(`SELECT message_id FROM agent_message_archive`), id)
	f.clock.advance(time.Hour)
	wantTaken(t, f.takeFor("b", time.Hour), id)
	if _, released, err := messages.Release(t.Context(), f.Ledger, id, "b"); err != nil || !released {
		t.Fatal(released, err)
	}
	wantTaken(t, f.takeFor("b", 0), id)
}

// Nothing of a lease is left when its agent is removed, or when a backup is restored: what was shown is unread.
func TestReadingLeaseOfTheGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	ofB, ofC := f.send("a", "b"), f.send("a", "c")
	wantTaken(t, f.takeFor("b", time.Hour), ofB)
	wantTaken(t, f.takeFor("c", time.Hour), ofC)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := f.BackupTo(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	if _, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "b", Force: true}); err != nil {
		t.Fatal(err)
	}
	wantRows(t, f.rows(`SELECT recipient FROM reading_lease`), "c")
	want(t, "unread of the removed", f.message(ofB).ReadAt, "")
	if _, err := f.Restore(t.Context(), backup, true); err != nil {
		t.Fatal(err)
	}
	wantTaken(t, f.takeFor("b", 0), ofB)
	wantTaken(t, f.takeFor("c", 0), ofC)
}

// An answer that cannot be written ends the leases that it made, and no later ones.
func TestUnreadUnderALease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	id := f.send("a", "b")
	first := f.takeFor("b", time.Hour)
	wantTaken(t, first, id)
	if err := reading.Unread(t.Context(), f.Ledger, first); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Second)
	wantTaken(t, f.takeFor("b", time.Hour), id)
	if err := reading.Unread(t.Context(), f.Ledger, first); err != nil { // late, of the first reader
		t.Fatal(err)
	}
	wantTaken(t, f.takeFor("b", time.Hour))
	wantRows(t, f.rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created", "delivered", "shown", "released", "shown")
}

func TestReadingLeaseBounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "b")
	for _, o := range []reading.Options{
		{Lease: messages.ReadingLease{For: time.Second - 1}}, {Lease: messages.ReadingLease{For: -time.Second}},
		{Lease: messages.ReadingLease{For: 24*time.Hour + 1}},
		{Lease: messages.ReadingLease{For: time.Second}, Peek: true},
		{Lease: messages.ReadingLease{For: time.Second}, Posts: true},
	} {
		o.Recipient, o.Limit = "b", 1
		_, _, err := reading.Wait(t.Context(), f.Ledger, o)
		wantCode(t, err, orchestrator.InvalidParams)
	}
}

// When the process of a reader is killed, what it had comes back at once to whoever waits; nothing does while it lives.
func TestReadingLeaseOfAKilledProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	id := f.send("a", "b")
	reader := exec.Command("sleep", "1000")
	if err := reader.Start(); err != nil {
		t.Skip("there is no sleep to be the reader:", err)
	}
	defer reader.Process.Kill()
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{
		Recipient: "b", Limit: 1, Lease: messages.ReadingLease{For: time.Hour, Holder: "wait", PID: reader.Process.Pid},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantTaken(t, ms, id)
	wantTaken(t, f.takeFor("b", 0))
	f.clock.advance(2 * time.Second)
	f.deliver()
	wantTaken(t, f.takeFor("b", 0))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type taken struct {
		ms  []orchestrator.Message
		err error
	}
	waiting := make(chan taken, 1)
	go func() {
		ms, _, err := reading.Wait(ctx, f.open().Ledger, reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour})
		waiting <- taken{ms, err}
	}()
	reader.Process.Kill()
	reader.Wait()
	got := <-waiting
	if got.err != nil {
		t.Fatal(got.err)
	}
	wantTaken(t, got.ms, id)
	wantRows(t, f.rows(`SELECT error FROM message_trace WHERE message_id = ? AND event = 'released'`, id),
		fmt.Sprintf("wait (process %d) has ended; unread again", reader.Process.Pid))

	// A daemon notices it, too; and another process that has got the number is not the reader.
	other := f.send("a", "b")
	wantTaken(t, f.takeFor("b", time.Hour), other)
	f.sql(`UPDATE reading_lease SET pid = ?, host = (SELECT host FROM reading_lease), born = 'before'`, 1)
	f.clock.advance(2 * time.Second)
	f.deliver()
	wantRows(t, f.rows(`SELECT message_id FROM reading_lease`), other) // of a process of another machine nothing is known
}

// However many readers take under leases at once, some of whom acknowledge and some not, nobody gets what another has.
func TestNeverTwoReadersUnderALease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	const sent = 30
	ids := map[string]bool{}
	for range sent {
		ids[f.send("a", "b")] = true
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
		r := f.open()
		wg.Go(func() {
			for n := 0; ctx.Err() == nil && !over(); n++ {
				ms, _, err := reading.Wait(ctx, r.Ledger, reading.Options{Recipient: "b", Limit: 3, Lease: messages.ReadingLease{For: time.Hour, Holder: "wait"}})
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
	want(t, "acknowledged", len(f.rows(`SELECT 1 FROM agent_message WHERE acknowledged_at <> ''`)), sent)
	wantRows(t, f.rows(`SELECT 1 FROM reading_lease`))
}
