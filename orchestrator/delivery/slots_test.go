package delivery_test

import (
	"context"
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
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/traffic"
	"mailroom/orchestrator/transport"
)

// addGated adds an agent with a limit of concurrent attempts.
func addGated(f *enginetest.Fixture, name string, limit int) {
	f.T.Helper()
	target := "gated:" + name
	f.Add(agents.Update{Name: name, Deliver: &target, Concurrency: &limit})
}

// TestSlotsBoundAttempts checks that an agent has as many concurrent attempts as it allows, and never more, however
// many processes deliver. The order of each sender's messages is kept.
func TestSlotsBoundAttempts(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 3} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			senders := []string{"s1", "s2", "s3", "s4", "s5"}
			f := enginetest.New(t, senders...)
			addGated(f, "b", limit)
			sent := map[string][]string{}
			for range 8 {
				for _, s := range senders {
					sent[s] = append(sent[s], f.Send(s, "b"))
				}
			}
			var mu sync.Mutex
			running, most, full := 0, 0, make(chan struct{})
			f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
				mu.Lock()
				running++
				if most = max(most, running); running == limit && len(full) == 0 {
					select {
					case <-full:
					default:
						close(full)
					}
				}
				if a.Slot == nil {
					t.Error("an attempt without a slot")
				}
				mu.Unlock()
				<-full // until the maximum is reached
				mu.Lock()
				defer mu.Unlock()
				running--
				return []error{nil}
			})
			var all sync.WaitGroup
			for _, r := range []*delivery.Engine{f.Engine, f.Open(), f.Open(), f.Open()} {
				all.Go(func() {
					if _, err := r.DeliverAll(t.Context(), delivery.Options{}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			want.Equal(t, "attempts at a time", most, limit)
			got := map[string][]string{}
			for _, m := range f.Wire.Arrived {
				got[m.Sender] = append(got[m.Sender], m.ID)
			}
			for _, s := range senders {
				if !slices.Equal(got[s], sent[s]) {
					t.Errorf("from %s arrived %v; want %v", s, got[s], sent[s])
				}
			}
		})
	}
}

// TestSlotHeldElsewhere checks that a run that finds all slots taken claims nothing, writes nothing, and returns at
// once. A later run delivers the messages.
func TestSlotHeldElsewhere(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "inboxed")
	addGated(f, "b", 2)
	var held []orchestrator.Slot
	for range 2 {
		slot, err := transport.Exec{}.Slot(f.Ledger.FilePrefix(), "b", 2)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, slot)
	}
	id, other := f.Send("a", "b"), f.Send("a", "inboxed")
	f.Deliver()
	want.Equal(t, "status of another's", f.Message(other).Status, orchestrator.Delivered)
	version := f.Version()
	if err := traffic.Count(t.Context(), f.Ledger); err != nil {
		// which happens once a minute if there were events
		t.Fatal(err)
	}
	before := version()
	for range 100 {
		f.Clock.Advance(time.Second)
		d := f.Deliver()
		want.Equal(t, "delivered and failed", d.Delivered+d.Failed, 0)
	}
	want.Equal(t, "version of the data", version(), before)
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Pending)
	want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created")
	held[1].Release()
	want.Equal(t, "delivered with one slot of two", f.Deliver().Delivered, 1)
	held[0].Release()
}

// TestSlotGivenBackTooLate checks that a message that is sent when the previous one is done, and whose run finds the
// slot still taken, is not left behind.
func TestSlotGivenBackTooLate(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	addGated(f, "b", 1)
	other := f.Open()
	sent := []string{f.Send("a", "b")}
	f.Wire.Leaving = func() {
		f.Wire.Leaving = nil
		sent = append(sent, f.Send("a", "b"))
		if _, err := other.DeliverAll(t.Context(), delivery.Options{}); err != nil {
			t.Error(err)
		}
		want.Equal(t, "arrived while the slot was taken", len(f.Wire.IDs()), 1)
	}
	f.Deliver()
	if got := f.Wire.IDs(); !slices.Equal(got, sent) {
		t.Errorf("arrived %v; want %v", got, sent)
	}
}

// TestSlotIsGivenBack checks that a slot is released however the attempt ends.
func TestSlotIsGivenBack(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	addGated(f, "b", 1)
	f.Send("a", "b")
	for _, answer := range []func(context.Context, orchestrator.Attempt) []error{
		enginetest.Failing("no"), enginetest.Refusing(enginetest.ErrLater),
		func(context.Context, orchestrator.Attempt) []error { panic("a transport") }, nil,
	} {
		f.Wire.Set(answer)
		f.Deliver()
		slot, err := transport.Exec{}.Slot(f.Ledger.FilePrefix(), "b", 1)
		if err != nil {
			t.Fatal(err)
		}
		slot.Release()
		f.Clock.Advance(2 * time.Minute)
	}
	want.Equal(t, "arrived", len(f.Wire.IDs()), 1)
}

// TestSlotCannotBeHad checks that if no slot can exist at all, the run reports the reason, and the message is
// unchanged.
func TestSlotCannotBeHad(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	addGated(f, "b", 1)
	id := f.Send("a", "b")
	if err := os.WriteFile(f.Ledger.FilePrefix()+"-slots", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := f.DeliverAll(t.Context(), delivery.Options{})
	if err == nil || !strings.Contains(err.Error(), "-slots") {
		t.Errorf("the run says %v", err)
	}
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Pending)
	want.Equal(t, "retry_count", m.RetryCount, 0)
	if err := os.Remove(f.Ledger.FilePrefix() + "-slots"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
}

// TestSlotOfATransportThatChanged gives an agent a transport with slots during a run. It checks that the messages are
// delivered with a slot, and that the run does not loop without one.
func TestSlotOfATransportThatChanged(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	first, second := f.Send("a", "b"), f.Send("a", "b")
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if !strings.HasPrefix(f.Agent("b").Deliver, "gated:") {
			addGated(f, "b", 1)
		} else if a.Slot == nil {
			t.Error("an attempt without a slot")
		}
		return []error{nil}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // only an endless run takes that long
	defer cancel()
	if _, err := f.DeliverAll(ctx, delivery.Options{}); err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	if got := f.Wire.IDs(); !slices.Equal(got, []string{first, second}) {
		t.Errorf("arrived %v; want %s and %s", got, first, second)
	}
	if n := len(f.Rows(`SELECT 1 FROM message_trace WHERE message_id = ? AND event = 'claimed'`, second)); n > 2 {
		t.Errorf("claimed %d times", n)
	}
}
