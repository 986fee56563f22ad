package router_test

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
	"mailroom/orchestrator/transport"
)

// gated is a scripted transport that bounds its attempts as commands are bounded, with the same locks.
type gated struct{ *scripted }

func (g gated) Slot(database, recipient string, limit int) (orchestrator.Slot, error) {
	slot, err := transport.Exec{}.Slot(database, recipient, limit)
	if err != nil || g.scripted == nil || g.leaving == nil {
		return slot, err
	}
	return lateSlot{slot, g.leaving}, nil
}

// lateSlot is a slot whose holder does something before it gives it back.
type lateSlot struct {
	orchestrator.Slot
	before func()
}

func (s lateSlot) Release() {
	s.before()
	s.Slot.Release()
}

// addGated adds an agent of which so many attempts are made at a time.
func (f *fixture) addGated(name string, limit int) {
	f.t.Helper()
	target := "gated:" + name
	f.add(agents.Update{Name: name, Deliver: &target, Concurrency: &limit})
}

// Of an agent's attempts as many are made at a time as it allows, and never more, however many deliver. Each sender's
// order is kept.
func TestSlotsBoundAttempts(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 3} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			senders := []string{"s1", "s2", "s3", "s4", "s5"}
			f := newFixture(t, senders...)
			f.addGated("b", limit)
			sent := map[string][]string{}
			for range 8 {
				for _, s := range senders {
					sent[s] = append(sent[s], f.send(s, "b"))
				}
			}
			var mu sync.Mutex
			running, most, full := 0, 0, make(chan struct{})
			f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
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
				<-full // until as many as may be are there at once
				mu.Lock()
				defer mu.Unlock()
				running--
				return []error{nil}
			})
			var all sync.WaitGroup
			for _, r := range []*delivery.Engine{f.Engine, f.open(), f.open(), f.open()} {
				all.Go(func() {
					if _, err := r.DeliverAll(t.Context(), delivery.Options{}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			want(t, "attempts at a time", most, limit)
			got := map[string][]string{}
			for _, m := range f.wire.arrived {
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

// Who finds all slots taken claims nothing, writes nothing, and comes back at once. What it left is delivered by a later
// run.
func TestSlotHeldElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "inboxed")
	f.addGated("b", 2)
	var held []orchestrator.Slot
	for range 2 {
		slot, err := gated{}.Slot(f.path, "b", 2)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, slot)
	}
	id, other := f.send("a", "b"), f.send("a", "inboxed")
	f.deliver()
	want(t, "status of another's", f.message(other).Status, orchestrator.Delivered)
	conn, err := openPlain(t, f.path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	version := func() (n int) {
		if err := conn.QueryRowContext(t.Context(), `PRAGMA data_version`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := version()
	for range 100 {
		f.clock.advance(time.Second)
		d := f.deliver()
		want(t, "delivered and failed", d.Delivered+d.Failed, 0)
	}
	want(t, "version of the data", version(), before)
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Pending)
	wantRows(t, f.rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created")
	held[1].Release()
	want(t, "delivered with one slot of two", f.deliver().Delivered, 1)
	held[0].Release()
}

// A message that is sent when the last one is done, and whose run finds the slot still taken, is not left behind.
func TestSlotGivenBackTooLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addGated("b", 1)
	other := f.open()
	sent := []string{f.send("a", "b")}
	f.wire.leaving = func() {
		f.wire.leaving = nil
		sent = append(sent, f.send("a", "b"))
		if _, err := other.DeliverAll(t.Context(), delivery.Options{}); err != nil {
			t.Error(err)
		}
		want(t, "arrived while the slot was taken", len(f.wire.ids()), 1)
	}
	f.deliver()
	if got := f.wire.ids(); !slices.Equal(got, sent) {
		t.Errorf("arrived %v; want %v", got, sent)
	}
}

// A slot is given back however the attempt ends.
func TestSlotIsGivenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addGated("b", 1)
	f.send("a", "b")
	for _, answer := range []func(context.Context, orchestrator.Attempt) []error{
		failing("no"), refusing(errLater), func(context.Context, orchestrator.Attempt) []error { panic("a transport") }, nil,
	} {
		f.wire.set(answer)
		f.deliver()
		slot, err := gated{}.Slot(f.path, "b", 1)
		if err != nil {
			t.Fatal(err)
		}
		slot.Release()
		f.clock.advance(2 * time.Minute)
	}
	want(t, "arrived", len(f.wire.ids()), 1)
}

// Where no slot can be had at all, the run says so, and the message stays as it was.
func TestSlotCannotBeHad(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addGated("b", 1)
	id := f.send("a", "b")
	if err := os.WriteFile(f.path+"-slots", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := f.DeliverAll(t.Context(), delivery.Options{})
	if err == nil || !strings.Contains(err.Error(), "-slots") {
		t.Errorf("the run says %v", err)
	}
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Pending)
	want(t, "retry_count", m.RetryCount, 0)
	if err := os.Remove(f.path + "-slots"); err != nil {
		t.Fatal(err)
	}
	want(t, "delivered", f.deliver().Delivered, 1)
}

// An agent that gets a transport with slots in the middle of a run: its messages are delivered with one, and nothing turns
// round and round without.
func TestSlotOfATransportThatChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	first, second := f.send("a", "b"), f.send("a", "b")
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		if !strings.HasPrefix(f.agent("b").Deliver, "gated:") {
			f.addGated("b", 1)
		} else if a.Slot == nil {
			t.Error("an attempt without a slot")
		}
		return []error{nil}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // only a run without end gets there
	defer cancel()
	if _, err := f.DeliverAll(ctx, delivery.Options{}); err != nil {
		t.Fatal(err)
	}
	f.deliver()
	if got := f.wire.ids(); !slices.Equal(got, []string{first, second}) {
		t.Errorf("arrived %v; want %s and %s", got, first, second)
	}
	if n := len(f.rows(`SELECT 1 FROM message_trace WHERE message_id = ? AND event = 'claimed'`, second)); n > 2 {
		t.Errorf("claimed %d times", n)
	}
}
