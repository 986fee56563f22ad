package delivery_test

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
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
)

func TestOrderAndPriority(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "reader")
	f.AddWired("b")
	var wired, read []string
	for i := range 10 {
		priority := func(d *orchestrator.Draft) { d.Priority = i % 2 }
		wired = append(wired, f.Send("a", "b", priority))
		read = append(read, f.Send("a", "reader", priority))
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
	f.Deliver()
	if got := f.Wire.IDs(); !slices.Equal(got, byPriority(wired)) {
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

// TestOneLiveLeasePerPair checks that while one worker has a message of a pair under a lease, no other worker may
// take the next message of that pair.
func TestOneLiveLeasePerPair(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "c")
	f.AddWired("b")
	other := f.Open()
	entered, release := make(chan struct{}), make(chan struct{})
	first := f.Send("a", "b")
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
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
	second, fromC := f.Send("a", "b"), f.Send("c", "b")
	if _, err := other.DeliverAll(t.Context(), delivery.Options{}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "the pair's next message", f.Message(second).Status, orchestrator.Pending)
	want.Equal(t, "another sender's message", f.Message(fromC).Status, orchestrator.Delivered)
	close(release)
	<-done
	f.Deliver()
	if got := f.Wire.IDs(); !slices.Equal(got, []string{fromC, first, second}) {
		t.Errorf("arrived as %v; want %v", got, []string{fromC, first, second})
	}
}

// TestLateResultIsFenced checks that a worker whose lease has expired changes nothing with its late result, and the
// trace records this.
func TestLateResultIsFenced(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	id := f.Send("a", "b")
	other := f.Open()
	f.Wire.Set(func(ctx context.Context, a orchestrator.Attempt) []error {
		f.Clock.Advance(time.Hour) // it stalls past its lease
		f.Wire.Set(func(context.Context, orchestrator.Attempt) []error { return []error{errors.New("busy")} })
		if _, err := other.DeliverAll(t.Context(), delivery.Options{}); err != nil {
			t.Error(err)
		}
		if err := a.Mark(ctx, "late"); !errors.Is(err, orchestrator.ErrLeaseLost) {
			t.Errorf("marking with a lost lease: %v", err)
		}
		return []error{nil}
	})
	f.Deliver()
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Retry)
	late := f.Rows(`SELECT error FROM message_trace WHERE message_id = ? AND event = 'released' ORDER BY id DESC
		LIMIT 1`, id)
	if len(late) != 1 || !strings.Contains(late[0], "late result ignored") {
		t.Errorf("the late result is not traced: %v", late)
	}
}

// TestSlowRecipientDelaysNobody checks that a slow recipient delays no other recipient, and inboxes are served first.
func TestSlowRecipientDelaysNobody(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "inboxed")
	f.AddWired("slow")
	f.AddWired("fast")
	entered, release := make(chan struct{}), make(chan struct{})
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Recipient == "slow" {
			close(entered)
			<-release
		}
		return make([]error, len(a.Messages))
	})
	slow := f.Send("a", "slow")
	if _, err := f.DeliverAll(t.Context(), delivery.Options{Background: true}); err != nil {
		t.Fatal(err)
	}
	<-entered
	quick := []string{f.Send("a", "inboxed"), f.Send("a", "fast")}
	f.Deliver() // waits for its own workers only
	for _, id := range quick {
		want.Equal(t, "status of "+id, f.Message(id).Status, orchestrator.Delivered)
	}
	want.Equal(t, "status of the slow one", f.Message(slow).Status, orchestrator.Pending)
	close(release)
}

// TestRecoveryAsksTheTransport checks that a message whose process died during delivery is claimed alone, and its
// transport is asked first.
func TestRecoveryAsksTheTransport(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	path := t.TempDir() + "/b.jsonl"
	target := "jsonl:" + path
	f.Add(agents.Update{Name: "b", Deliver: &target})
	id := f.Send("a", "b")
	f.Deliver()
	// The crash: the line is on disk, but the delivery is not settled.
	f.SQL(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '', lease_token = 'dead',
		lease_until = ? WHERE message_id = ?`,
		f.Clock.Now().Format("2006-01-02T15:04:05.000Z"), id)
	f.Clock.Advance(time.Second)
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	want.Equal(t, "lines", len(enginetest.FileLines(t, path)), 1)
	m := f.Message(id)
	want.Equal(t, "crashes", m.Crashes, 1)
}

// TestOrderOfWhatWasWrittenByHandMeanwhile checks that a message that somebody wrote by hand during a delivery run is
// not overtaken by a later message of the same sender.
func TestOrderOfWhatWasWrittenByHandMeanwhile(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	first := f.Send("a", "b")
	var second string
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Messages[0].ID == first {
			f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload)
				VALUES ('by-hand', 'a', 'b', '1')`)
			second = f.Send("a", "b")
		}
		return make([]error, len(a.Messages))
	})
	f.Deliver()
	want.Rows(t, f.Wire.IDs(), first, "by-hand", second)
}

// TestRecoveryFromTheFallbackFailsNothing checks that a message found in the fallback's file after a crash was
// delivered, and does not count as a failed attempt.
func TestRecoveryFromTheFallbackFailsNothing(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	folder := t.TempDir()
	target, fallback := "jsonl:"+folder+"/b.jsonl", "jsonl:"+t.TempDir()+"/b.jsonl"
	f.Add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	id := f.Send("a", "b")
	f.Deliver()
	failed := `SELECT count(*) FROM message_trace WHERE event = 'attempt_failed'`
	want.Rows(t, f.Rows(failed), "1")
	f.SQL(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '', lease_token = 'dead',
		lease_until = ? WHERE message_id = ?`,
		f.Clock.Now().Format("2006-01-02T15:04:05.000Z"), id)
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	want.Rows(t, f.Rows(failed), "1")
	want.Rows(t, f.Rows(`SELECT error FROM message_trace WHERE event = 'delivered' ORDER BY id DESC LIMIT 1`),
		"by the fallback "+fallback+": an earlier attempt had delivered it")
}

// TestGivenUpUnaskedSaysSo checks a message on which a crash left a mark, and whose transport cannot be asked until
// the retries are used up: the error must not claim that the message did not arrive. A replay asks first.
func TestGivenUpUnaskedSaysSo(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	folder := t.TempDir() + "/there"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	target := "jsonl:" + folder + "/b.jsonl"
	f.Add(agents.Update{Name: "b", Deliver: &target})
	id := f.Send("a", "b")
	f.Deliver()
	f.SQL(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '', lease_token = 'dead',
		lease_until = ? WHERE message_id = ?`,
		f.Clock.Now().Format("2006-01-02T15:04:05.000Z"), id)
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		f.Clock.Advance(5 * time.Minute)
		want.Equal(t, "failed attempts", f.Deliver().Failed, 1)
	}
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Failed)
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
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	want.Equal(t, "lines", len(enginetest.FileLines(t, folder+"/b.jsonl")), 1)
}

func TestWaitersShareMessages(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
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
		f.Send("a", "b")
	}
	wg.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s went to %d waiters", id, n)
		}
	}
	want.Equal(t, "messages read", len(seen), messages)
}

func TestWaitReturnsNothingAtItsEnd(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "b")
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil || len(ms) != 0 {
		t.Errorf("%v %v", ms, err)
	}
	_, _, err = reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "nobody", Limit: 1})
	want.Code(t, err, orchestrator.UnknownRecipient)
}

func TestUnreadAfterItReachedSomebody(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	acknowledged, again := f.Send("a", "b"), f.Send("a", "b")
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
	f.Clock.Advance(time.Second)
	second, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 2})
	if err != nil || len(second) != 1 || second[0].ID != again {
		t.Fatalf("%d messages, %v; an acknowledged one is handed out again", len(second), err)
	}
	if err := reading.Unread(t.Context(), f.Ledger, first); err != nil { // late, from the first reading
		t.Fatal(err)
	}
	if third, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 2}); err != nil ||
		len(third) != 0 {
		t.Errorf("%d messages, %v; a late taking back undid the second reading", len(third), err)
	}
}

func TestUnread(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
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
	want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created", "delivered",
		"read", "released", "read")
}

// TestStoppingFinishesWhatIsClaimed checks that deliveries that are claimed when the process is asked to stop are
// finished; no more are claimed.
func TestStoppingFinishesWhatIsClaimed(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	first, second := f.Send("a", "b"), f.Send("a", "b")
	ctx, stop := context.WithCancel(t.Context())
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error {
		stop()
		return []error{nil}
	})
	f.DeliverAll(ctx, delivery.Options{})
	want.Equal(t, "claimed", f.Message(first).Status, orchestrator.Delivered)
	want.Equal(t, "not claimed", f.Message(second).Status, orchestrator.Pending)
	want.Equal(t, "leases", len(f.Rows(`SELECT 1 FROM agent_message WHERE lease_token <> ''`)), 0)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Set("retry.max_retries", "0")
	f.Wire.Set(enginetest.Failing("down"))
	id := f.Send("a", "b")
	f.Deliver()
	_, err := messages.Replay(t.Context(), f.Ledger, id, "b")
	want.Code(t, err, orchestrator.PermissionDenied)
	f.Wire.Set(nil)
	if _, err := messages.Replay(t.Context(), f.Ledger, id, "a"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "retry_count", f.Message(id).RetryCount, 0)
	f.Deliver()
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
	want.Equal(t, "failed attempts in the trace",
		len(f.Rows(`SELECT 1 FROM message_trace WHERE message_id = ? AND event = 'attempt_failed'`, id)), 1)
	_, err = messages.Replay(t.Context(), f.Ledger, id, "")
	want.Code(t, err, orchestrator.Conflict)
	_, err = messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "nobody"})
	var e *orchestrator.Error
	errors.As(err, &e)
	_, err = messages.Replay(t.Context(), f.Ledger, e.MessageID, "")
	want.Code(t, err, orchestrator.UnknownRecipient)
}

// TestReplayBeginsTheTTLAnew checks that the TTL of an expired message starts again when the message is replayed.
func TestReplayBeginsTheTTLAnew(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b", func(d *orchestrator.Draft) { d.TTL = time.Hour })
	f.Clock.Advance(2 * time.Hour)
	f.Deliver()
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Expired)
	if _, err := messages.Replay(t.Context(), f.Ledger, id, "a"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "its end", f.Message(id).ExpiresAt, orchestrator.Stamp(f.Clock.Now().Add(time.Hour)))
	f.Deliver()
	want.Equal(t, "status after the replay", f.Message(id).Status, orchestrator.Delivered)
}

func TestRemoveAgent(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.ViewInboxes("b")
	id := f.Send("a", "b")
	_, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b"})
	want.Code(t, err, orchestrator.Conflict)
	failed, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b", Force: true})
	if err != nil || failed != 1 {
		t.Fatal(failed, err)
	}
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Failed)
	want.Equal(t, "retry_count", m.RetryCount, 0)
	if !f.OnServer() {
		want.Equal(t, "views",
			fmt.Sprint(f.Rows(`SELECT name FROM sqlite_schema WHERE name LIKE 'b\_inbox%' ESCAPE '\'`)), "[]")
	}
}

// TestExpiredIsNotClaimed checks that a message that expires while a run delivers those before it is not delivered,
// and that the next run makes it a dead letter.
func TestExpiredIsNotClaimed(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	first := f.Send("a", "b")
	late := f.Send("a", "b", func(d *orchestrator.Draft) { d.TTL = 30 * time.Second })
	last := f.Send("a", "b")
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error {
		f.Clock.Advance(30 * time.Second)
		return []error{nil}
	})
	f.Deliver()
	want.Rows(t, f.Wire.IDs(), first, last)
	f.Deliver()
	want.Equal(t, "status", f.Message(late).Status, orchestrator.Expired)
	want.Rows(t, f.Wire.IDs(), first, last)
}
