package hosts_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
)

// waiter makes this process wait for bob's session; it returns nil if another process does.
func (r room) waiter(session string) *hosts.Waiter { return r.waiterThat(false, session) }

func (r room) waiterThat(stays bool, session string) *hosts.Waiter {
	r.T.Helper()
	event := hosts.Event{Agent: "bob", Program: "claude", Session: session, Process: process.Of(os.Getpid())}
	w, err := hosts.NewWaiter(r.T.Context(), r.Ledger, event, stays)
	if err != nil {
		r.T.Fatal(err)
	}
	return w
}

// idle makes bob's session one idle, with a waiter.
func (r room) idle() *hosts.Waiter {
	r.T.Helper()
	r.event(hosts.Prompted)
	r.event(hosts.Stopped)
	r.Clock.Advance(time.Second)
	return r.waiter("one")
}

// looks checks the result of a waiter's Look.
func (r room) looks(w *hosts.Waiter, does hosts.Outlook, n int) {
	r.T.Helper()
	got, messages, err := w.Look(r.T.Context())
	if err != nil {
		r.T.Fatal(err)
	}
	want.Equal(r.T, "outlook", got, does)
	want.Equal(r.T, "messages", messages, n)
}

// An idle session is woken once for unread messages, delivered or not. The waiter is then done, and the next one
// wakes the session for new messages.
func TestWake(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w := r.idle()
	r.looks(w, hosts.Quiet, 0)
	r.Send("alice", "bob")
	r.Deliver()
	r.Send("alice", "bob")
	r.looks(w, hosts.Wake, 2)
	r.looks(w, hosts.Over, 0)
	w = r.waiter("one")
	r.looks(w, hosts.Soon, 0) // not for the same messages
	r.Send("alice", "bob")
	r.looks(w, hosts.Wake, 1)
	w = r.waiter("one")
	r.Clock.Advance(119 * time.Second)
	r.looks(w, hosts.Soon, 0)
	r.Clock.Advance(time.Second)
	r.looks(w, hosts.Wake, 3)
	want.Equal(t, "shown", len(r.event(hosts.Woken).Messages), 3)
}

// A session whose hooks show nothing when it is woken, so that the messages stay unread, is not woken for them
// forever.
func TestWokenInVain(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.idle()
	r.Set("hook.turns", "2")
	r.Send("alice", "bob")
	for range 2 {
		r.looks(r.waiter("one"), hosts.Wake, 1)
		r.Clock.Advance(2 * time.Minute)
	}
	r.looks(r.waiter("one"), hosts.Over, 0)
}

// Nor is a session whose messages are cancelled each time after it was woken.
func TestWokenForWhatIsCancelled(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.idle()
	r.Set("hook.turns", "2")
	for range 2 {
		id := r.Send("alice", "bob")
		r.looks(r.waiter("one"), hosts.Wake, 1)
		r.SQL(`UPDATE agent_message SET status = 'cancelled' WHERE message_id = ?`, id)
		want.Equal(t, "shown", len(r.event(hosts.Woken).Messages), 0)
		r.event(hosts.Stopped)
		r.Clock.Advance(time.Second)
	}
	r.Send("alice", "bob")
	r.looks(r.waiter("one"), hosts.Over, 0)
}

// A working session looks by itself. If it does not for half a minute, it is woken all the same. A session that has
// just become idle may be about to look.
func TestWakeOfASessionThatWorks(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w := r.idle()
	r.event(hosts.Prompted)
	r.Send("alice", "bob")
	r.looks(w, hosts.Soon, 0)
	r.Clock.Advance(29 * time.Second)
	r.looks(w, hosts.Soon, 0)
	want.Equal(t, "shown", len(r.event(hosts.Worked).Messages), 1)
	r.looks(w, hosts.Quiet, 0)
	r.Send("alice", "bob")
	r.looks(w, hosts.Soon, 0)
	r.Clock.Advance(30 * time.Second)
	r.looks(w, hosts.Wake, 1)

	w = r.waiter("one")
	r.event(hosts.Stopped)
	r.event(hosts.Stopped)
	r.Send("alice", "bob")
	r.looks(w, hosts.Soon, 0)
	r.Clock.Advance(time.Second)
	r.looks(w, hosts.Wake, 1)
}

// Confirmations, messages of the engine, scheduled messages, and messages that were read, cancelled or expired wake
// nobody, and nothing is written.
func TestWhatWakesNobody(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w := r.idle()
	r.Send("alice", "bob", typed("ACK"))
	r.Send("alice", "bob", typed("STATUS"))
	r.Send("alice", "bob", func(d *orchestrator.Draft) { d.Priority = -1 })
	r.looks(w, hosts.Quiet, 0)
	if _, err := messages.Cancel(t.Context(), r.Ledger, r.Send("alice", "bob"), "alice"); err != nil {
		t.Fatal(err)
	}
	r.Send("alice", "bob")
	want.Equal(t, "read", len(r.TakeFor("bob", 0)), 4)
	r.Send("alice", "bob", func(d *orchestrator.Draft) { d.TTL = time.Second })
	r.Deliver()
	r.Send("alice", "bob", func(d *orchestrator.Draft) { d.TTL = time.Second })
	r.Clock.Advance(time.Second)
	r.Send("alice", "bob", func(d *orchestrator.Draft) { d.Delay = time.Hour })
	r.SQL(`UPDATE agent_message SET sender = 'system' WHERE message_id = ?`, r.Send("alice", "bob"))
	was := r.Rows(`SELECT * FROM host_sessions`)
	r.looks(w, hosts.Quiet, 0)
	want.Rows(t, r.Rows(`SELECT * FROM host_sessions`), was...)
	r.Clock.Advance(time.Hour)
	r.looks(w, hosts.Wake, 1)
}

// The recipient's rules for wakes take precedence over the sender's, and a rule for a type over that for all
// others.
func TestWakeAsItIsWanted(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w := r.idle()
	r.Send("alice", "bob", wakes(orchestrator.WakeRest))
	r.looks(w, hosts.Quiet, 0)
	r.Send("alice", "bob", typed("ack"), wakes(orchestrator.WakeNow))
	r.looks(w, hosts.Wake, 1)
	r.wants("bob", "never, ack=now")
	r.event(hosts.Woken)
	r.event(hosts.Stopped)
	r.Clock.Advance(time.Second)
	w = r.waiter("one")
	r.Send("alice", "bob", wakes(orchestrator.WakeNow))
	r.looks(w, hosts.Quiet, 0)
	r.Send("alice", "bob", typed("ACK"), wakes(orchestrator.WakeNever))
	r.looks(w, hosts.Wake, 1)
}

// A turn that is about to end goes on for messages with the wake rest, and shows the others too. Messages that
// never wake are shown in turns that go on anyway.
func TestWhatATurnGoesOnFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what  string
		kind  hosts.Kind
		wakes orchestrator.Wake
		event func(*hosts.Event)
		shown int
	}{
		{"end of a turn", hosts.Stopped, orchestrator.WakeNever, plainly, 0},
		{"end of a turn", hosts.Stopped, orchestrator.WakeRest, plainly, 2},
		{"end of a turn that is told of", hosts.Stopped, orchestrator.WakeNever, nudge, 0},
		{"tool call", hosts.Worked, orchestrator.WakeNever, plainly, 2},
		{"prompt", hosts.Prompted, orchestrator.WakeNever, plainly, 2},
		{"start", hosts.Started, orchestrator.WakeNever, plainly, 2},
		{"turn that others began", hosts.Woken, orchestrator.WakeNever, plainly, 2},
		{"idle", hosts.Rested, orchestrator.WakeRest, plainly, 0},
		{"idle, by a stream", hosts.Rested, orchestrator.WakeRest, settled, 0},
		{"idle, by a stream", hosts.Rested, orchestrator.WakeNow, settled, 2},
		{"start, by a stream", hosts.Started, orchestrator.WakeRest, settled, 0},
		{"at work, by a stream", hosts.Woken, orchestrator.WakeNever, settled, 0},
		{"at work, by a stream", hosts.Woken, orchestrator.WakeRest, settled, 2},
	} {
		t.Run(fmt.Sprint(test.what, test.wakes), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			r.event(hosts.Prompted)
			r.Send("alice", "bob", typed("ACK"))
			r.Send("alice", "bob", wakes(test.wakes))
			a := r.event(test.kind, test.event)
			want.Equal(t, "shown", len(a.Messages), test.shown)
			want.Equal(t, "left", a.Left, 0)
		})
	}
}

func plainly(*hosts.Event) {}

// nudge makes the end of a turn return the number of messages instead of taking them.
func nudge(e *hosts.Event) { e.Nudge = true }

// settled makes the event one of a stream that settles messages itself.
func settled(e *hosts.Event) { e.Settled, e.Transcript = true, nil }

// typed sets a message's type.
func typed(kind string) func(*orchestrator.Draft) {
	return func(d *orchestrator.Draft) { d.Type = kind }
}

// wakes sets the wake of a message, as its sender.
func wakes(wake orchestrator.Wake) func(*orchestrator.Draft) {
	return func(d *orchestrator.Draft) { d.Wake = wake }
}

// wants sets the wake rules of an agent.
func (r room) wants(agent, rules string) {
	r.T.Helper()
	if _, _, err := agents.Add(r.T.Context(), r.Ledger, agents.Update{Name: agent, Wake: &rules}); err != nil {
		r.T.Fatal(err)
	}
}

// A session has one waiter, the first one alive.
func TestOneWaiter(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	other, kill := newProcess(t)
	r.idle()
	r.SQL(`UPDATE host_sessions SET waiter_pid = ?, waiter_born = ?`, other.PID, other.Born)
	want.Equal(t, "beside another waiter", r.waiter("one") == nil, true)
	want.Equal(t, "of another session", r.waiter("two") == nil, false)
	kill()
	w := r.waiter("one")
	r.Send("alice", "bob")
	r.looks(w, hosts.Wake, 1)
	r.looks(r.waiter("two"), hosts.Soon, 0) // another session was woken for it
}

// A waiter that stays wakes its session once for each message. It replaces another waiter.
func TestWaiterThatStays(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.idle()
	other := process.Of(os.Getppid())
	r.SQL(`UPDATE host_sessions SET waiter_pid = ?, waiter_born = ?`, other.PID, other.Born)
	w := r.waiterThat(true, "one")
	for range 3 {
		r.looks(w, hosts.Quiet, 0)
		r.Send("alice", "bob")
		r.looks(w, hosts.Wake, 1)
		r.looks(w, hosts.Soon, 0)
		want.Equal(t, "shown", len(r.event(hosts.Rested).Messages), 1)
		r.event(hosts.Stopped)
		r.Clock.Advance(time.Second)
	}
	r.SQL(`UPDATE host_sessions SET waiter_pid = ?, waiter_born = ?`, other.PID, other.Born)
	r.looks(w, hosts.Over, 0)
}

// Of several waiters in one process, as in one that serves other machines, the newest counts.
func TestWaitersOfOneProcess(t *testing.T) {
	t.Parallel()
	for _, stays := range []bool{false, true} {
		r := newRoom(t)
		r.idle()
		first, of := r.waiterThat(stays, "one"), r.waiterThat(stays, "two")
		second := r.waiterThat(stays, "one")
		r.Send("alice", "bob")
		r.looks(first, hosts.Over, 0)
		r.looks(second, hosts.Wake, 1)
		r.looks(of, hosts.Soon, 0)
	}
}

// A waiter is over when its session has ended, or is not to be woken before its user's next prompt.
func TestWaiterIsOver(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w := r.idle()
	r.Set("hook.turns", "1")
	r.looks(w, hosts.Quiet, 0)
	r.Send("alice", "bob")
	r.looks(w, hosts.Wake, 1)
	r.event(hosts.Woken)
	w = r.waiter("one")
	r.looks(w, hosts.Over, 0)
	r.event(hosts.Prompted)
	r.looks(w, hosts.Quiet, 0)
	r.event(hosts.Ended)
	r.looks(w, hosts.Over, 0)
	w = r.waiter("one")       // the session goes on, and the hook that reports it comes later
	r.looks(w, hosts.Soon, 0) // a message that was shown and lost is unread again
	_, err := hosts.NewWaiter(t.Context(), r.Ledger, hosts.Event{Agent: "nobody", Session: "one"}, false)
	want.Equal(t, "code", orchestrator.CodeOf(err), orchestrator.UnknownRecipient)
}

// Presence is empty until a host has reported any session, and then the best of each agent's sessions.
func TestPresence(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	knows := func(of, known string) {
		t.Helper()
		got, err := r.presence(of)
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "presence of "+of, got[of], known)
		both, err := r.presence("alice", "bob")
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "presence among others of "+of, both[of], known)
	}
	knows("bob", "")
	remote := of(process.ID{})
	r.event(hosts.Prompted, inSession("remote"), remote)
	knows("bob", hosts.IsWorking)
	knows("alice", hosts.NoHooks)
	r.event(hosts.Stopped, inSession("remote"), remote)
	knows("bob", hosts.IsIdle)
	r.Clock.Advance(time.Hour)
	knows("bob", hosts.NotThere)
	r.event(hosts.Started)
	knows("bob", hosts.IsIdle)
	known, err := hosts.Presence(t.Context(), r.Ledger, &orchestrator.Draft{Sender: "alice", Type: "ACK"}, "bob")
	want.Equal(t, "error", err, nil)
	want.Equal(t, "presence for an ACK", known["bob"], hosts.NotWoken)
	r.Set("budget.bytes", "1")
	known, err = hosts.Presence(t.Context(), r.Ledger, &orchestrator.Draft{Sender: "alice", Type: "note"}, "bob")
	want.Equal(t, "error", err, nil)
	want.Equal(t, "presence without a budget", known["bob"], hosts.OverSpent)
	r.Set("budget.bytes", "0")
	r.Clock.Advance(time.Hour) // its process lives
	knows("bob", hosts.IsIdle)
	r.event(hosts.Prompted, inSession("two")) // in the same process
	knows("bob", hosts.IsWorking)
	r.event(hosts.Ended, inSession("two"))
	knows("bob", hosts.NotThere)
}

// presence returns the presence that senders see.
func (r room) presence(agents ...string) (known map[string]string, err error) {
	err = r.Ledger.Write(r.T.Context(), store.Shared, func(t *ledger.Tx) (err error) {
		known, err = hosts.PresenceIn(t, &orchestrator.Draft{Sender: "alice"}, agents...)
		return err
	})
	return known, err
}

// TestWokenByOthers checks that a turn that another program began counts once messages are shown in it, and that
// the limit applies to it.
func TestWokenByOthers(t *testing.T) {
	r := newRoom(t)
	r.event(hosts.Started)
	shown := 0
	for range 15 {
		r.Send("alice", "bob")
		shown += len(r.event(hosts.Woken).Messages)
	}
	want.Equal(t, "messages", shown, 12)
	want.Rows(t, r.Rows(`SELECT turns FROM host_sessions`), "12")
}
