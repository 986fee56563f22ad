package reading_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// waited is the result of a wait.
type waited struct {
	agent string
	ms    []orchestrator.Message
	err   error
}

// wait starts a wait for other agents. The wait ends with a message, or with ctx.
func wait(ctx context.Context, r *delivery.Engine, ended chan<- waited, agent string, names ...string) {
	go func() {
		ms, _, err := reading.Wait(ctx, r.Ledger,
			reading.Options{Recipient: agent, Limit: 10, Timeout: time.Hour, For: names})
		ended <- waited{agent, ms, err}
	}()
}

// untilRows returns when a counting query returns n.
func untilRows(f *enginetest.Fixture, ctx context.Context, query string, n int) {
	f.T.Helper()
	for {
		if rows := f.Rows(query); rows[0] == fmt.Sprint(n) {
			return
		}
		if ctx.Err() != nil {
			f.T.Fatalf("%s never gave %d", query, n)
		}
		runtime.Gosched()
	}
}

const countWaits = `SELECT count(*) FROM waits`

// TestOfWaitsThatCloseACircleOneIsRefused checks that of several waits that close a circle together exactly one is
// refused, whichever comes last. The others continue until they get a message. They leave no rows behind.
func TestOfWaitsThatCloseACircleOneIsRefused(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "sender")
			var names []string
			for i := range n {
				names = append(names, fmt.Sprintf("agent%d", i))
				f.Add(agents.Update{Name: names[i]})
			}
			routers, ctx := f.OpenAll(n), enginetest.Deadline(t)
			for range 40 {
				ended := make(chan waited, n)
				for i, name := range names {
					wait(ctx, routers[i], ended, name, names[(i+1)%n])
				}
				refused := <-ended
				wantCircle(t, refused, names)
				for _, name := range names {
					if name != refused.agent {
						if _, err := messages.Send(ctx, routers[0].Ledger,
							orchestrator.Draft{Sender: "sender", Recipient: name}); err != nil {
							t.Fatal(err)
						}
					}
				}
				for range n - 1 {
					if w := <-ended; w.err != nil || len(w.ms) != 1 {
						t.Fatalf("%s got %v, %v; it should wait until somebody writes", w.agent, w.ms, w.err)
					}
				}
				want.Equal(t, "waits that stay behind", f.Rows(countWaits)[0], "0")
			}
		})
	}
}

// wantCircle fails unless a wait was refused with the whole circle named, beginning and ending with the refused
// agent.
func wantCircle(t *testing.T, w waited, names []string) {
	t.Helper()
	want.Code(t, w.err, orchestrator.Conflict)
	var e *orchestrator.Error
	errors.As(w.err, &e)
	at := slices.Index(names, w.agent)
	circle := append(append(slices.Clone(names[at:]), names[:at]...), w.agent)
	if got, _ := e.Details["circle"].([]string); !slices.Equal(got, circle) {
		t.Fatalf("the circle is %v; want %v", got, circle)
	}
	if !strings.Contains(e.Message, strings.Join(circle, " waits for ")) || e.Hint == "" {
		t.Fatalf("the error says %q, hint %q", e.Message, e.Hint)
	}
}

// TestAskingInTurnIsNoCircle checks that two agents that ask each other in turn, each waiting for the other, never
// close a circle. An agent that has its message waits for nobody, even before its wait has returned.
func TestAskingInTurnIsNoCircle(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	routers, ctx := f.OpenAll(2), enginetest.Deadline(t)
	failed := make(chan error, 2)
	play := func(r *delivery.Engine, self, other string, serves bool) {
		for i := range 300 {
			if serves || i > 0 {
				if _, err := messages.Send(ctx, r.Ledger,
					orchestrator.Draft{Sender: self, Recipient: other}); err != nil {
					failed <- err
					return
				}
			}
			if _, _, err := reading.Wait(ctx, r.Ledger,
				reading.Options{Recipient: self, Limit: 1, Timeout: time.Hour, For: []string{other}}); err != nil {
				failed <- fmt.Errorf("round %d: %w", i, err)
				return
			}
		}
		_, err := messages.Send(ctx, r.Ledger, orchestrator.Draft{Sender: self, Recipient: other}) // ends its wait
		failed <- err
	}
	go play(routers[0], "a", "b", true)
	go play(routers[1], "b", "a", false)
	for range 2 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	want.Equal(t, "waits that stay behind", f.Rows(countWaits)[0], "0")
}

// TestUntargetedWaitsNeverCount checks that a wait that names no agent closes no circle: a team whose members all
// wait for any message is idle, not stuck.
func TestUntargetedWaitsNeverCount(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	r, ctx := f.OpenAll(1)[0], enginetest.Deadline(t)
	ended := make(chan waited, 3)
	wait(ctx, r, ended, "a")
	wait(ctx, r, ended, "b")
	wait(ctx, r, ended, "c", "a", "b")
	untilRows(f, ctx, countWaits, 2)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := messages.Send(ctx, r.Ledger, orchestrator.Draft{Sender: "a", Recipient: name}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if w := <-ended; w.err != nil || len(w.ms) != 1 {
			t.Errorf("%s got %v, %v", w.agent, w.ms, w.err)
		}
	}
}

// refuses reports whether a wait of an agent for another is refused.
func refuses(f *enginetest.Fixture, agent, other string) bool {
	f.T.Helper()
	ctx, cancel := context.WithCancel(enginetest.Deadline(f.T))
	defer cancel()
	before := f.Rows(`SELECT count(*) FROM waits WHERE instance = 'killed'`)[0]
	ended := make(chan waited, 1)
	wait(ctx, f.Engine, ended, agent, other)
	for {
		select {
		case w := <-ended:
			want.Code(f.T, w.err, orchestrator.Conflict)
			want.Equal(f.T, "edges after a refusal", f.Rows(`SELECT count(*) FROM waits WHERE instance <> 'killed'`)[0],
				"0")
			want.Equal(f.T, "edges of others after a refusal",
				f.Rows(`SELECT count(*) FROM waits WHERE instance = 'killed'`)[0], before)
			return true
		default:
		}
		if f.Rows(`SELECT count(*) FROM waits WHERE instance <> 'killed'`)[0] == "1" {
			cancel()
			if w := <-ended; !errors.Is(w.err, context.Canceled) {
				f.T.Fatalf("the wait ended with %v, %v", w.ms, w.err)
			}
			want.Equal(f.T, "edges after the context ended",
				f.Rows(`SELECT count(*) FROM waits WHERE instance <> 'killed'`)[0], "0")
			return false
		}
		runtime.Gosched()
	}
}

// TestStaleEdgesRefuseNobodyForEver checks that the rows of a killed process refuse waits until their timeout has
// passed, and no longer, even if a clock was set forward and back.
func TestStaleEdgesRefuseNobodyForEver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		until   time.Duration // end of the wait, from now
		move    time.Duration // change of the clock
		refused bool
	}{
		{"it may still wait", time.Minute, 0, true},
		{"a moment before its end", time.Minute, time.Minute - time.Millisecond, true},
		{"its end", time.Minute, time.Minute, false},
		{"long over", time.Minute, 48 * time.Hour, false},
		{"the longest that counts", 24 * time.Hour, 0, true},
		{"longer than any", 24*time.Hour + time.Millisecond, 0, false},
		{"the clock was set back by a day", time.Minute, -24 * time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "a", "b")
			f.DeadWait("b", "a", f.Clock.Now().Add(c.until))
			f.Clock.Advance(c.move)
			want.Equal(t, "refused", refuses(f, "a", "b"), c.refused)
		})
	}
}

// TestAWaitCountsForADayAtMost checks that a longer wait counts for a day only.
func TestAWaitCountsForADayAtMost(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	ctx, cancel := context.WithCancel(enginetest.Deadline(t))
	done := make(chan error, 1)
	go func() {
		_, _, err := reading.Wait(ctx, f.Ledger,
			reading.Options{Recipient: "a", Limit: 1, Timeout: 99 * time.Hour, For: []string{"b"}})
		done <- err
	}()
	untilRows(f, ctx, countWaits, 1)
	want.Rows(t, f.Rows(`SELECT waiter, waits_for, until FROM waits`), "a b 2026-01-03T03:04:05.000Z")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
	want.Equal(t, "edges after it", f.Rows(countWaits)[0], "0")
}

// TestWhoHasMailWaitsForNobody checks that an agent with unread messages does not count as waiting, and that a wait
// for oneself is refused.
func TestWhoHasMailWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	far := f.Clock.Now().Add(time.Hour)
	f.DeadWait("b", "c", far)
	f.DeadWait("c", "a", far)
	want.Equal(t, "refused while nobody has mail", refuses(f, "a", "b"), true)
	id := f.Send("d", "c")
	want.Equal(t, "refused while c has mail that is due", refuses(f, "a", "b"), false)
	f.Deliver()
	want.Equal(t, "refused while c has mail in its inbox", refuses(f, "a", "b"), false)
	if ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "c", Limit: 1}); err != nil ||
		len(ms) != 1 || ms[0].ID != id {
		t.Fatalf("got %v, %v", ms, err)
	}
	want.Equal(t, "refused once c has read it", refuses(f, "a", "b"), true)
	want.Equal(t, "refused to wait for itself", refuses(f, "d", "d"), true)
}

// TestWaitForAnAnswer checks that a wait for the answer to a message is a wait for its recipients. The error names
// agents that cannot answer.
func TestWaitForAnAnswer(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "team", []string{"a", "b", "c"}); err != nil {
		t.Fatal(err)
	}
	single, all := f.Send("a", "b"), f.Send("a", "team")
	post := f.MustPost(f.Thread("a", "b", "c").ID, "a", "b", "c").MessageID
	for _, c := range []struct{ id, edges string }{{single, "b"}, {all, "b,c"}, {post, "b,c"}} {
		f.Deliver()
		for _, name := range []string{"a", "b", "c"} { // an agent with unread messages does not count as waiting
			if _, _, err := reading.Wait(t.Context(), f.Ledger,
				reading.Options{Recipient: name, Limit: 10}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(enginetest.Deadline(t))
		done := make(chan error, 1)
		go func() {
			_, _, err := reading.Wait(ctx, f.Ledger,
				reading.Options{Recipient: "a", Limit: 1, Timeout: time.Hour, ReplyTo: c.id})
			done <- err
		}()
		untilRows(f, ctx, countWaits, strings.Count(c.edges, ",")+1)
		want.Rows(t, f.Rows(`SELECT group_concat(waits_for)
			FROM (SELECT waits_for FROM waits WHERE waiter = 'a' ORDER BY waits_for) AS w`), c.edges)
		if others := strings.Contains(c.edges, "c"); others { // c may also answer, until it waits for one of them
			want.Equal(t, "b is refused to wait while c may answer", refusesBeside(f, "b", "a"), false)
			f.DeadWait("c", "b", f.Clock.Now().Add(time.Hour))
		}
		_, _, err := reading.Wait(t.Context(), f.Ledger,
			reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour, For: []string{"a"}})
		want.Code(t, err, orchestrator.Conflict)
		f.SQL(`DELETE FROM waits WHERE waiter = 'c'`)
		cancel()
		<-done
	}
	for _, c := range []struct {
		o    reading.Options
		code orchestrator.Code
	}{
		{reading.Options{Recipient: "b", ReplyTo: single}, orchestrator.PermissionDenied},
		{reading.Options{Recipient: "a", ReplyTo: "msg-none"}, orchestrator.NotFound},
		{reading.Options{Recipient: "a", For: []string{"nobody"}}, orchestrator.UnknownRecipient},
		{reading.Options{Recipient: "a", For: []string{"no name"}}, orchestrator.InvalidParams},
	} {
		c.o.Limit, c.o.Timeout = 1, time.Hour
		_, _, err := reading.Wait(t.Context(), f.Ledger, c.o)
		want.Code(t, err, c.code)
	}
	want.Equal(t, "edges after all that", f.Rows(countWaits)[0], "0")
}

// refusesBeside reports whether a wait is refused while other agents are really waiting.
func refusesBeside(f *enginetest.Fixture, agent, other string) bool {
	f.T.Helper()
	ctx, cancel := context.WithCancel(enginetest.Deadline(f.T))
	defer cancel()
	ended := make(chan waited, 1)
	wait(ctx, f.Engine, ended, agent, other)
	for {
		select {
		case w := <-ended:
			want.Code(f.T, w.err, orchestrator.Conflict)
			return true
		default:
		}
		if f.Rows(`SELECT count(*) FROM waits WHERE waiter = ?1`, agent)[0] == "1" {
			cancel()
			<-ended
			return false
		}
		runtime.Gosched()
	}
}

// TestAWaitForAnyOfSeveral checks that a wait for any of several agents is refused only if none of them can act,
// directly or because of others. The error names the circle and the times since when the others wait.
func TestAWaitForAnyOfSeveral(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	far := f.Clock.Now().Add(time.Hour)
	f.DeadWait("a", "b", far)
	f.DeadWait("a", "c", far)
	want.Equal(t, "refused while c may answer a", refuses(f, "b", "a"), false)
	f.DeadWait("c", "d", far)
	want.Equal(t, "refused while d may answer c, which may answer a", refuses(f, "b", "a"), false)
	f.Clock.Advance(time.Minute)
	f.DeadWait("d", "c", far)
	_, _, err := reading.Wait(t.Context(), f.Ledger,
		reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour, For: []string{"a"}})
	want.Code(t, err, orchestrator.Conflict)
	var e *orchestrator.Error
	errors.As(err, &e)
	want.Equal(t, "circle", fmt.Sprint(e.Details["circle"]), "[b a b]")
	want.Equal(t, "hint", e.Hint, "Already waiting: a since 2026-01-02T03:04:05.000Z. First send the message that a is waiting for")
	f.Send("d", "d")
	want.Equal(t, "refused while d has mail", refuses(f, "b", "a"), false)
	want.Equal(t, "refused to wait for itself", refuses(f, "b", "b"), true)
}

// TestWaitsForAnswersAlone checks that two agents that wait only for answers close a circle, although each has an
// unread question of the other. An available answer ends the wait, and another message stays unread.
func TestWaitsForAnswersAlone(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	asked := f.Send("a", "b")
	f.Send("b", "a")
	f.DeadWait("b", "a", f.Clock.Now().Add(time.Hour))
	f.SQL(`UPDATE waits SET filtered = 2`)
	o := reading.Options{Recipient: "a", Limit: 10, Timeout: time.Hour, ReplyTo: asked, Filter: reading.Filter{Answers: asked}}
	_, _, err := reading.Wait(t.Context(), f.Ledger, o)
	want.Code(t, err, orchestrator.Conflict)

	answer := f.Send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo = asked })
	ms, _, err := reading.Wait(t.Context(), f.Ledger, o)
	if err != nil {
		t.Fatal(err)
	}
	want.IDs(t, ms, answer)
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message m LEFT JOIN agent_inbox i USING (message_id)
		WHERE m.recipient = 'a' AND coalesce(i.read_at, '') = ''`), "1")
}
