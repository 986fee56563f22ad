package router_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
)

func TestOrderAndPriority(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "reader")
	f.addWired("b")
	var wired, read []string
	for i := range 10 {
		priority := func(d *orchestrator.Draft) { d.Priority = i % 2 }
		wired = append(wired, f.send("a", "b", priority))
		read = append(read, f.send("a", "reader", priority))
	}
	byPriority := func(ids []string) (ordered []string) {
		for _, odd := range []int{1, 0} {
			for i, id := range ids {
				if i%2 == odd {
					ordered = append(ordered, id)
				}
			}
		}
		return ordered
	}
	f.deliver()
	if got := f.wire.ids(); !slices.Equal(got, byPriority(wired)) {
		t.Errorf("arrived as %v; want %v", got, byPriority(wired))
	}
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "reader", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range ms {
		got = append(got, m.ID)
	}
	if !slices.Equal(got, byPriority(read)) {
		t.Errorf("read as %v; want %v", got, byPriority(read))
	}
}

// While one worker has a message of a pair under a lease, no other may take the next one of that pair.
func TestOneLiveLeasePerPair(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "c")
	f.addWired("b")
	other := f.open()
	entered, release := make(chan struct{}), make(chan struct{})
	first := f.send("a", "b")
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Messages[0].ID == first {
			close(entered)
			<-release
		}
		return make([]error, len(a.Messages))
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.DeliverAll(t.Context(), delivery.Options{})
	}()
	<-entered
	second, fromC := f.send("a", "b"), f.send("c", "b")
	if _, err := other.DeliverAll(t.Context(), delivery.Options{}); err != nil {
		t.Fatal(err)
	}
	want(t, "the pair's next message", f.message(second).Status, orchestrator.Pending)
	want(t, "another sender's message", f.message(fromC).Status, orchestrator.Delivered)
	close(release)
	<-done
	f.deliver()
	if got := f.wire.ids(); !slices.Equal(got, []string{fromC, first, second}) {
		t.Errorf("arrived as %v; want %v", got, []string{fromC, first, second})
	}
}

// A worker whose lease ran out changes nothing with its late result, and the trace says so.
func TestLateResultIsFenced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	id := f.send("a", "b")
	other := f.open()
	f.wire.set(func(ctx context.Context, a orchestrator.Attempt) []error {
		f.clock.advance(time.Hour) // it stalls past its lease
		f.wire.set(func(context.Context, orchestrator.Attempt) []error { return []error{errors.New("busy")} })
		if _, err := other.DeliverAll(t.Context(), delivery.Options{}); err != nil {
			t.Error(err)
		}
		if err := a.Mark(ctx, "late"); !errors.Is(err, orchestrator.ErrLeaseLost) {
			t.Errorf("marking with a lost lease: %v", err)
		}
		return []error{nil}
	})
	f.deliver()
	want(t, "status", f.message(id).Status, orchestrator.Retry)
	late := f.rows(`SELECT error FROM message_trace WHERE message_id = ? AND event = 'released' ORDER BY id DESC LIMIT 1`, id)
	if len(late) != 1 || !strings.Contains(late[0], "late result ignored") {
		t.Errorf("the late result is not traced: %v", late)
	}
}

// A slow recipient delays nobody else, and the inboxes go first.
func TestSlowRecipientDelaysNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "inboxed")
	f.addWired("slow")
	f.addWired("fast")
	entered, release := make(chan struct{}), make(chan struct{})
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Recipient == "slow" {
			close(entered)
			<-release
		}
		return make([]error, len(a.Messages))
	})
	slow := f.send("a", "slow")
	if _, err := f.DeliverAll(t.Context(), delivery.Options{Background: true}); err != nil {
		t.Fatal(err)
	}
	<-entered
	quick := []string{f.send("a", "inboxed"), f.send("a", "fast")}
	f.deliver() // waits for its own workers only
	for _, id := range quick {
		want(t, "status of "+id, f.message(id).Status, orchestrator.Delivered)
	}
	want(t, "status of the slow one", f.message(slow).Status, orchestrator.Pending)
	close(release)
}

// A message whose process died during delivery is taken alone, and its transport is asked first.
func TestRecoveryAsksTheTransport(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	path := t.TempDir() + "/b.jsonl"
	target := "jsonl:" + path
	f.add(agents.Update{Name: "b", Deliver: &target})
	id := f.send("a", "b")
	f.deliver()
	// The crash: the line is on disk and the settlement is not.
	f.sql(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '', lease_token = 'dead', lease_until = ? WHERE message_id = ?`,
		f.clock.now().Format("2006-01-02T15:04:05.000Z"), id)
	f.clock.advance(time.Second)
	want(t, "delivered", f.deliver().Delivered, 1)
	want(t, "lines", len(fileLines(t, path)), 1)
	m := f.message(id)
	want(t, "crashes", m.Crashes, 1)
}

// What somebody wrote by hand during a delivery run is not passed by what the same sender sent later.
func TestOrderOfWhatWasWrittenByHandMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	first := f.send("a", "b")
	var second string
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Messages[0].ID == first {
			f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('by-hand', 'a', 'b', '1')`)
			second = f.send("a", "b")
		}
		return make([]error, len(a.Messages))
	})
	f.deliver()
	wantRows(t, f.wire.ids(), first, "by-hand", second)
}

// What is found in the fallback's file after a crash was delivered, and is no attempt that failed.
func TestRecoveryFromTheFallbackFailsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	folder := t.TempDir()
	target, fallback := "jsonl:"+folder+"/b.jsonl", "jsonl:"+t.TempDir()+"/b.jsonl"
	f.add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	id := f.send("a", "b")
	f.deliver()
	failed := `SELECT count(*) FROM message_trace WHERE event = 'attempt_failed'`
	wantRows(t, f.rows(failed), "1")
	f.sql(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '', lease_token = 'dead', lease_until = ? WHERE message_id = ?`,
		f.clock.now().Format("2006-01-02T15:04:05.000Z"), id)
	want(t, "delivered", f.deliver().Delivered, 1)
	wantRows(t, f.rows(failed), "1")
	wantRows(t, f.rows(`SELECT error FROM message_trace WHERE event = 'delivered' ORDER BY id DESC LIMIT 1`),
		"by the fallback "+fallback+": an earlier attempt had delivered it")
}

// A crash left a message marked, and its transport cannot be asked until the ladder ends: nobody may say that it did not
// arrive. A replay asks first.
func TestGivenUpUnaskedSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	folder := t.TempDir() + "/there"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	target := "jsonl:" + folder + "/b.jsonl"
	f.add(agents.Update{Name: "b", Deliver: &target})
	id := f.send("a", "b")
	f.deliver()
	f.sql(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '', lease_token = 'dead', lease_until = ? WHERE message_id = ?`,
		f.clock.now().Format("2006-01-02T15:04:05.000Z"), id)
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		f.clock.advance(5 * time.Minute)
		want(t, "failed attempts", f.deliver().Failed, 1)
	}
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Failed)
	for _, says := range []string{"does not exist", "cannot tell"} {
		if !strings.Contains(m.Error, says) {
			t.Errorf("error %q does not say %q", m.Error, says)
		}
	}
	if err := os.Rename(folder+".away", folder); err != nil {
		t.Fatal(err)
	}
	if _, err := messages.Replay(t.Context(), f.Ledger, id, ""); err != nil {
		t.Fatal(err)
	}
	want(t, "delivered", f.deliver().Delivered, 1)
	want(t, "lines", len(fileLines(t, folder+"/b.jsonl")), 1)
}

func TestWaitersShareMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	const messages = 40
	var mu sync.Mutex
	seen := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		r := f.Engine
		wg.Go(func() {
			for ctx.Err() == nil {
				ms, _, err := reading.Wait(ctx, r.Ledger, reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour})
				if err != nil {
					return
				}
				mu.Lock()
				for _, m := range ms {
					seen[m.ID]++
				}
				if len(seen) == messages {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for range messages {
		f.send("a", "b")
	}
	wg.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s went to %d waiters", id, n)
		}
	}
	want(t, "messages read", len(seen), messages)
}

func TestWaitReturnsNothingAtItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "b")
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil || len(ms) != 0 {
		t.Errorf("%v %v", ms, err)
	}
	_, _, err = reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "nobody", Limit: 1})
	wantCode(t, err, orchestrator.UnknownRecipient)
}

func TestUnreadAfterItReachedSomebody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	acknowledged, again := f.send("a", "b"), f.send("a", "b")
	first, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 2})
	if err != nil || len(first) != 2 {
		t.Fatal(len(first), err)
	}
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, acknowledged, "b"); err != nil {
		t.Fatal(err)
	}
	if err := reading.Unread(t.Context(), f.Ledger, first); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Second)
	second, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 2})
	if err != nil || len(second) != 1 || second[0].ID != again {
		t.Fatalf("%d messages, %v; an acknowledged one is handed out again", len(second), err)
	}
	if err := reading.Unread(t.Context(), f.Ledger, first); err != nil { // late, of the first reading
		t.Fatal(err)
	}
	if third, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 2}); err != nil || len(third) != 0 {
		t.Errorf("%d messages, %v; a late taking back undid the second reading", len(third), err)
	}
}

func TestUnread(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	id := f.send("a", "b")
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil || len(ms) != 1 {
		t.Fatal(ms, err)
	}
	if err := reading.Unread(t.Context(), f.Ledger, ms); err != nil {
		t.Fatal(err)
	}
	again, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil || len(again) != 1 || again[0].ID != id {
		t.Errorf("after being unread: %v %v", again, err)
	}
	wantRows(t, f.rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created", "delivered", "read", "released", "read")
}

// Deliveries that are claimed when the process is asked to stop are finished; nothing more is claimed.
func TestStoppingFinishesWhatIsClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	first, second := f.send("a", "b"), f.send("a", "b")
	ctx, stop := context.WithCancel(t.Context())
	f.wire.set(func(context.Context, orchestrator.Attempt) []error {
		stop()
		return []error{nil}
	})
	f.DeliverAll(ctx, delivery.Options{})
	want(t, "claimed", f.message(first).Status, orchestrator.Delivered)
	want(t, "not claimed", f.message(second).Status, orchestrator.Pending)
	want(t, "leases", len(f.rows(`SELECT 1 FROM agent_message WHERE lease_token <> ''`)), 0)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	f.setting("retry.max_retries", "0")
	f.wire.set(failing("down"))
	id := f.send("a", "b")
	f.deliver()
	_, err := messages.Replay(t.Context(), f.Ledger, id, "b")
	wantCode(t, err, orchestrator.PermissionDenied)
	f.wire.set(nil)
	if _, err := messages.Replay(t.Context(), f.Ledger, id, "a"); err != nil {
		t.Fatal(err)
	}
	want(t, "retry_count", f.message(id).RetryCount, 0)
	f.deliver()
	want(t, "status", f.message(id).Status, orchestrator.Delivered)
	want(t, "failed attempts in the trace", len(f.rows(`SELECT 1 FROM message_trace WHERE message_id = ? AND event = 'attempt_failed'`, id)), 1)
	_, err = messages.Replay(t.Context(), f.Ledger, id, "")
	wantCode(t, err, orchestrator.Conflict)
	_, err = messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "nobody"})
	var e *orchestrator.Error
	errors.As(err, &e)
	_, err = messages.Replay(t.Context(), f.Ledger, e.MessageID, "")
	wantCode(t, err, orchestrator.UnknownRecipient)
}

func TestRemoveAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	id := f.send("a", "b")
	_, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "b"})
	wantCode(t, err, orchestrator.Conflict)
	failed, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "b", Force: true})
	if err != nil || failed != 1 {
		t.Fatal(failed, err)
	}
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Failed)
	want(t, "retry_count", m.RetryCount, 0)
	want(t, "views", fmt.Sprint(f.rows(`SELECT name FROM sqlite_schema WHERE name LIKE 'b\_inbox%' ESCAPE '\'`)), "[]")
}
