package reading_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
)

// queue holds the waits of one client in a bubble in which a writes to b and c.
type queue struct {
	*enginetest.Fixture
	line reading.Line
}

func inLine(t *testing.T, then func(t *testing.T, q *queue)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{Fixture: enginetest.NewBubble(t)}
		defer q.Close()
		for _, name := range []string{"a", "b", "c"} {
			q.Add(agents.Update{Name: name})
		}
		then(t, q)
	})
}

// waits begins a wait, of b unless o names another recipient, and returns when the wait has joined the line.
func (q *queue) waits(ctx context.Context, o reading.Options) <-chan waited {
	ended := make(chan waited, 1)
	if o.Recipient == "" {
		o.Recipient = "b"
	}
	if o.Timeout == 0 {
		o.Timeout = time.Hour
	}
	o.Limit = 10
	go func() {
		ms, _, err := reading.Wait(reading.InLine(ctx, &q.line), q.Ledger, o)
		ended <- waited{o.Recipient, ms, err}
	}()
	synctest.Wait()
	return ended
}

// got checks which waits have ended so far, and with which id; "" means that the wait continues.
func (q *queue) got(what string, waits []<-chan waited, ids ...string) {
	q.T.Helper()
	synctest.Wait()
	for i, ended := range waits {
		select {
		case w := <-ended:
			if w.err != nil || len(w.ms) != 1 || w.ms[0].ID != ids[i] {
				q.T.Errorf("%s: wait %d has got %v and %v; want %q", what, i, w.ms, w.err, ids[i])
			}
		default:
			if ids[i] != "" {
				q.T.Errorf("%s: wait %d has got nothing; want %s", what, i, ids[i])
			}
		}
	}
}

// TestNewestWaitIsFirst checks, many times, that the newest wait in a line gets a message, and the others get the
// next ones.
func TestNewestWaitIsFirst(t *testing.T) {
	inLine(t, func(t *testing.T, q *queue) {
		for range 20 {
			var waits []<-chan waited
			for range 4 {
				waits = append(waits, q.waits(t.Context(), reading.Options{}))
			}
			for n := len(waits); n > 0; n-- {
				wanted := make([]string, n)
				wanted[n-1] = q.Send("a", "b")
				q.got("a message", waits[:n], wanted...)
			}
		}
	})
}

// TestNewestWaitTakesOnlyItsOwn checks that a message that the newest wait does not accept goes to the next wait, and
// that a message for another agent goes to that agent.
func TestNewestWaitTakesOnlyItsOwn(t *testing.T) {
	inLine(t, func(t *testing.T, q *queue) {
		waits := []<-chan waited{
			q.waits(t.Context(), reading.Options{}),
			q.waits(t.Context(), reading.Options{Recipient: "c"}),
			q.waits(t.Context(), reading.Options{Filter: reading.Filter{Sender: "c"}}),
			q.waits(t.Context(), reading.Options{Recipient: "c"}),
		}
		q.got("from a to b", waits, q.Send("a", "b"), "", "", "")
		q.got("from c to b", waits, "", "", q.Send("c", "b"), "")
		q.got("to c", waits, "", "", "", q.Send("a", "c"))
		q.got("to c again", waits, "", q.Send("a", "c"), "", "")
	})
}

// TestWaitsThatLeaveTheLine checks that a cancelled or expired wait gets nothing, and the next wait gets the message.
// If a newer wait only peeks, the older one takes the message.
func TestWaitsThatLeaveTheLine(t *testing.T) {
	inLine(t, func(t *testing.T, q *queue) {
		oldest := q.waits(t.Context(), reading.Options{})
		short := q.waits(t.Context(), reading.Options{Timeout: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		off := q.waits(ctx, reading.Options{})
		cancel()
		if w := <-off; !errors.Is(w.err, context.Canceled) || len(w.ms) > 0 {
			t.Errorf("the wait that was called off: %v, %v", w.ms, w.err)
		}
		if w := <-short; w.err != nil || len(w.ms) > 0 {
			t.Errorf("the short wait: %v, %v", w.ms, w.err)
		}
		looks := q.waits(t.Context(), reading.Options{Peek: true})
		id := q.Send("a", "b")
		q.got("looked at and taken", []<-chan waited{oldest, looks}, id, id)
	})
}

// TestCircleInALine checks that a wait that is refused while another takes a message for it loses nothing, and that
// the rows of a wait that was served by another are deleted with the message.
func TestCircleInALine(t *testing.T) {
	inLine(t, func(t *testing.T, q *queue) {
		first := q.waits(t.Context(), reading.Options{For: []string{"c"}})
		second := q.waits(t.Context(), reading.Options{For: []string{"c"}})
		refused := make(chan waited, 1)
		wait(t.Context(), q.Engine, refused, "c", "b")
		want.Code(t, (<-refused).err, orchestrator.Conflict)
		waits := []<-chan waited{first, second}
		q.got("the newest", waits, "", q.Send("c", "b"))
		want.Rows(t, q.Rows(countWaits), "1")
		q.got("the oldest", waits[:1], q.Send("c", "b"))
		want.Rows(t, q.Rows(countWaits), "0")
	})
}

// TestLineLosesNothing checks that each message is in the answer of one wait, however the waits of a line come and
// go.
func TestLineLosesNothing(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	ctx, stop := context.WithCancel(t.Context())
	lease := messages.ReadingLease{Holder: "wait", Writer: process.Self()}
	var line reading.Line
	var waiters sync.WaitGroup
	answers := make(chan string, 1000)
	for range 8 {
		waiters.Go(func() {
			for ctx.Err() == nil {
				ms, _, err := reading.Wait(reading.InLine(ctx, &line), f.Ledger,
					reading.Options{Recipient: "b", Timeout: time.Hour, Limit: 10, Lease: lease})
				if err == nil {
					err = reading.Written(context.WithoutCancel(ctx), f.Ledger, ms, lease)
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				for i := range ms {
					answers <- ms[i].ID
				}
			}
		})
	}
	seen := map[string]int{}
	var sent []string
	for range 100 {
		sent = append(sent, f.Send("a", "b"))
	}
	for len(seen) < len(sent) {
		select {
		case id := <-answers:
			seen[id]++
		case <-time.After(time.Minute):
			t.Errorf("of %d messages %d are in no answer", len(sent), len(sent)-len(seen))
			seen = nil
			sent = nil
		}
	}
	stop()
	waiters.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is in %d answers", id, n)
		}
	}
	want.Rows(t, f.Rows(`SELECT message_id FROM reading_lease`))
}
