package hosts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
)

// transcript returns the sights that a test sets. By default the transcript cannot be read.
type transcript hosts.Sights

func (s transcript) Sights() hosts.Sights { return hosts.Sights(s) }

// room is an engine with the agents alice and bob; bob works in sessions.
type room struct {
	*enginetest.Fixture
}

func newRoom(t *testing.T) room { return room{enginetest.New(t, "alice", "bob")} }

// event reports an event of bob's session one, in this process, with an unreadable transcript. change may modify
// the event.
func (r room) event(kind hosts.Kind, change ...func(*hosts.Event)) hosts.Answer {
	r.T.Helper()
	e := hosts.Event{
		Agent: "bob", Program: "claude", Session: "one", Kind: kind, Process: process.Of(os.Getpid()),
		Transcript: transcript{},
		Fits:       func(ms []orchestrator.Message) int { return len(ms) },
	}
	for _, c := range change {
		c(&e)
	}
	a, err := hosts.Happened(r.T.Context(), r.Ledger, e)
	if err != nil {
		r.T.Fatal(err)
	}
	return a
}

// sees sets the sight of messages in the transcript, which was written at the current time.
func (r room) sees(sight hosts.Sight, ids ...string) func(*hosts.Event) {
	s := transcript{Of: map[string]hosts.Sight{}, Written: r.Clock.Now()}
	for _, id := range ids {
		switch sight {
		case hosts.Absent:
		case hosts.Unknown:
			s.Of = nil
		default:
			s.Of[r.Mark(id)] = sight
		}
	}
	return func(e *hosts.Event) { e.Transcript = s }
}

func inSession(name string) func(*hosts.Event) { return func(e *hosts.Event) { e.Session = name } }

func of(p process.ID) func(*hosts.Event) { return func(e *hosts.Event) { e.Process = p } }

// standing returns the state of a message for its reader: unread, shown or read.
func (r room) standing(id string) string {
	r.T.Helper()
	rows := r.Rows(`SELECT CASE WHEN m.read_at <> '' THEN 'read' WHEN i.read_at <> '' THEN 'shown' ELSE 'unread' END
		FROM agent_message m JOIN agent_inbox i USING (message_id) WHERE message_id = ?`, id)
	return strings.Join(rows, " ")
}

// shown sends a message to bob and shows it at a tool call of bob's.
func (r room) shown() string {
	r.T.Helper()
	id := r.Send("alice", "bob")
	want.IDs(r.T, r.event(hosts.Worked).Messages, id)
	want.Equal(r.T, "standing", r.standing(id), "shown")
	return id
}

// The next event and the transcript decide about a message that was shown.
func TestShownMessageIsSettledByTheNextEvent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		next  hosts.Kind
		sight hosts.Sight
		then  string
	}{
		{hosts.Worked, hosts.Answered, "read"},
		{hosts.Worked, hosts.Unknown, "read"},
		{hosts.Worked, hosts.Absent, "shown"}, // the model may not have been called since
		{hosts.Worked, hosts.Present, "shown"},
		{hosts.Stopped, hosts.Present, "read"},
		{hosts.Prompted, hosts.Answered, "read"},
		{hosts.Prompted, hosts.Present, "shown"},
		{hosts.Prompted, hosts.Unknown, "shown"},
		{hosts.Woken, hosts.Absent, "shown"},
		{hosts.Started, hosts.Absent, "shown"}, // of the same process
		{hosts.Ended, hosts.Answered, "read"},
		{hosts.Ended, hosts.Present, "unread"},
		{hosts.Ended, hosts.Unknown, "unread"},
	} {
		t.Run(fmt.Sprint(test.next, test.sight), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			id := r.shown()
			r.Clock.Advance(2 * time.Second)
			want.IDs(t, r.event(test.next, r.sees(test.sight, id)).Messages)
			want.Equal(t, "standing", r.standing(id), test.then)
		})
	}
}

// If the transcript may be very late, the end of a tool call proves that the model has spoken, although the
// transcript lacks the message.
func TestLateTranscript(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.shown()
	r.Clock.Advance(2 * time.Second)
	late := func(e *hosts.Event) { e.Transcript = transcript{Of: map[string]hosts.Sight{id: hosts.Absent}} }
	want.IDs(t, r.event(hosts.Worked, late).Messages)
	want.Equal(t, "standing", r.standing(id), "read")
}

// Tools that were called at once end one after another, which proves nothing about a message shown at the end of
// the first.
func TestToolsCalledAtOnce(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.shown()
	r.Clock.Advance(time.Second)
	want.IDs(t, r.event(hosts.Worked).Messages)
	want.Equal(t, "standing", r.standing(id), "shown")
	want.IDs(t, r.event(hosts.Stopped).Messages)
	want.Equal(t, "standing", r.standing(id), "read")
}

// A prompt of the user proves that a shown message was discarded, unless the transcript may only be late.
func TestInterruptedTurnGivesItsMessagesBack(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.shown()
	r.Clock.Advance(4 * time.Second)
	want.IDs(t, r.event(hosts.Prompted, r.sees(hosts.Absent, id)).Messages)
	r.Clock.Advance(2 * time.Second)
	want.IDs(t, r.event(hosts.Prompted, r.sees(hosts.Absent, id)).Messages, id)
	want.Rows(t, r.Rows(`SELECT event, error FROM message_trace WHERE message_id = ? AND event IN ('shown', 'released')
		ORDER BY id`, id),
		"shown to session one of claude, not yet confirmed",
		"released the model in session one has not seen it; unread again",
		"shown to session one of claude, not yet confirmed")
}

// The end of a turn also proves that a message shown before its user's prompt was discarded.
func TestTurnAfterAnInterruptedOne(t *testing.T) {
	t.Parallel()
	for prompted, again := range map[time.Duration]bool{-time.Second: false, time.Second: true} {
		t.Run(fmt.Sprint(prompted), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			at := r.Clock.Now().Add(prompted)
			id := r.shown()
			r.Clock.Advance(2 * time.Second)
			lacks := func(e *hosts.Event) {
				e.Transcript = transcript{Of: map[string]hosts.Sight{id: hosts.Absent}, Written: r.Clock.Now(),
					Prompted: at}
			}
			want.IDs(t, r.event(hosts.Prompted, lacks).Messages)
			ms := r.event(hosts.Stopped, lacks).Messages
			if again {
				want.IDs(t, ms, id)
				want.Equal(t, "standing", r.standing(id), "shown")
			} else {
				want.IDs(t, ms)
				want.Equal(t, "standing", r.standing(id), "read")
			}
		})
	}
}

// While its session lives, nobody else gets a shown message, however long a tool call takes. When the process has
// ended, another session does.
func TestShownMessageStaysWithItsSession(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	host, kill := newProcess(t)
	id := r.Send("alice", "bob")
	want.IDs(t, r.event(hosts.Worked, of(host)).Messages, id)
	for range 3 {
		r.Clock.Advance(messages.MaxReadingLease + time.Hour)
		r.Deliver()
		want.IDs(t, r.event(hosts.Worked, inSession("two")).Messages)
		want.IDs(t, r.TakeFor("bob", 0))
	}
	kill()
	want.IDs(t, r.event(hosts.Worked, inSession("two")).Messages, id)
	want.Equal(t, "standing", r.standing(id), "shown")
}

// If no process proves that a session lives, it keeps shown messages for ten minutes after its last event.
func TestSessionWithoutAProcess(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.Send("alice", "bob")
	remote := of(process.ID{})
	want.IDs(t, r.event(hosts.Worked, remote).Messages, id)
	r.Clock.Advance(9 * time.Minute)
	want.IDs(t, r.event(hosts.Woken, remote).Messages) // settles nothing, but is a sign of life
	r.Clock.Advance(9 * time.Minute)
	want.IDs(t, r.event(hosts.Started, inSession("two"), remote).Messages)
	r.Clock.Advance(time.Minute)
	want.IDs(t, r.event(hosts.Worked, inSession("two"), remote).Messages, id)
}

// A message that such a session has answered before a tool call longer than its lease is read afterwards and not
// shown again.
func TestLongToolWithoutAProcess(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.Send("alice", "bob")
	remote := of(process.ID{})
	want.IDs(t, r.event(hosts.Worked, remote).Messages, id)
	r.Clock.Advance(20 * time.Minute)
	r.Deliver()
	want.Equal(t, "standing", r.standing(id), "unread")
	want.IDs(t, r.event(hosts.Worked, remote, r.sees(hosts.Answered, id)).Messages)
	want.Equal(t, "standing", r.standing(id), "read")
}

// Messages alone put off the end of a turn five times in a row and cause twelve turns; then they wait for the user.
func TestTurnsWithoutTheUser(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.event(hosts.Prompted)
	for range 5 {
		r.Send("alice", "bob")
		want.Equal(t, "shown", len(r.event(hosts.Stopped).Messages), 1)
	}
	r.Send("alice", "bob")
	a := r.event(hosts.Stopped)
	want.Equal(t, "shown", len(a.Messages), 0)
	for range 7 {
		r.Clock.Advance(time.Second)
		r.looks(r.waiter("one"), hosts.Wake, 1)
		want.Equal(t, "shown", len(r.event(hosts.Woken).Messages), 1)
		r.event(hosts.Stopped)
		r.Send("alice", "bob")
	}
	r.Clock.Advance(time.Second)
	r.looks(r.waiter("one"), hosts.Over, 0)
	a = r.event(hosts.Prompted)
	want.Equal(t, "shown", len(a.Messages), 1)
	want.Equal(t, "turns", a.Turns, 12)
	r.Send("alice", "bob")
	want.Equal(t, "shown", len(r.event(hosts.Stopped).Messages), 1)
}

// For a host that shows answers to the user, the answer at the end of a turn is only the number of messages. That
// counts as a turn. The messages follow with the next event, which does not count.
func TestNudge(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	nudge := func(e *hosts.Event) { e.Nudge = true }
	r.event(hosts.Prompted, nudge)
	for range 5 {
		id := r.Send("alice", "bob")
		a := r.event(hosts.Stopped, nudge)
		want.IDs(t, a.Messages)
		want.Equal(t, "left", a.Left, 1)
		want.Equal(t, "standing", r.standing(id), "unread")
		want.IDs(t, r.event(hosts.Nudged, nudge).Messages, id)
		want.Equal(t, "left at the end",
			r.event(hosts.Stopped, func(e *hosts.Event) { e.Nudge, e.Fits = true, nil }).Left, 0)
		want.Equal(t, "standing", r.standing(id), "read")
	}
	r.Send("alice", "bob")
	want.Equal(t, "left", r.event(hosts.Stopped, nudge).Left, 0)
	a := r.event(hosts.Prompted, nudge)
	want.Equal(t, "shown", len(a.Messages), 1)
	want.Equal(t, "turns", a.Turns, 5)
}

// The events of a host that settles messages itself settle nothing until the session ends.
func TestSettle(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	settled := func(e *hosts.Event) { e.Settled, e.Transcript = true, nil }
	seen, refused, open := r.Send("alice", "bob"), r.Send("alice", "bob"), r.Send("alice", "bob")
	want.IDs(t, r.event(hosts.Woken, settled).Messages, seen, refused, open)
	for _, kind := range []hosts.Kind{hosts.Rested, hosts.Prompted, hosts.Worked, hosts.Started} {
		want.IDs(t, r.event(kind, settled).Messages)
		want.Equal(t, "standing", r.standing(seen), "shown")
	}
	for _, test := range []struct {
		id   string
		seen bool
	}{{seen, true}, {refused, false}, {seen, false}, {refused, true}} {
		if err := hosts.Settle(t.Context(), r.Ledger, "bob", "one", []string{r.Mark(test.id), "1.none"},
			test.seen); err != nil {
			t.Fatal(err)
		}
	}
	for id, standing := range map[string]string{seen: "read", refused: "unread", open: "shown"} {
		want.Equal(t, "standing", r.standing(id), standing)
	}
	other := of(process.Of(os.Getppid()))
	want.IDs(t, r.event(hosts.Rested, settled, other).Messages, refused, open)
	r.event(hosts.Ended, settled, other)
	want.Equal(t, "open", r.standing(open), "unread")
}

// Messages that do not fit stay unread and follow with the next event.
func TestOnlyWhatFitsIsShown(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ids := make([]string, 25)
	for i := range ids {
		ids[i] = r.Send("alice", "bob")
	}
	two := func(e *hosts.Event) { e.Fits = func([]orchestrator.Message) int { return 2 } }
	a := r.event(hosts.Worked, two)
	want.IDs(t, a.Messages, ids[:2]...)
	want.Equal(t, "left", a.Left, 23)
	a = r.event(hosts.Worked)
	want.IDs(t, a.Messages, ids[2:22]...)
	want.Equal(t, "left", a.Left, 3)
	want.IDs(t, r.event(hosts.Worked).Messages, ids[22:]...)
}

// An answer that cannot be written is given back.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.Send("alice", "bob")
	a := r.event(hosts.Worked)
	if err := hosts.GiveBack(t.Context(), r.Ledger, &a); err != nil {
		t.Fatal(err)
	}
	want.IDs(t, r.event(hosts.Worked).Messages, id)
}

// Until the hook that took a message has written it, no event of the session settles it, such as that of a parallel
// tool call. A hook that is killed gives it back.
func TestAnswerThatIsNotWritten(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	hook, kill := newProcess(t)
	id := r.Send("alice", "bob")
	writer := func(p process.ID) func(*hosts.Event) { return func(e *hosts.Event) { e.Writer = p } }
	want.IDs(t, r.event(hosts.Worked, writer(hook)).Messages, id)
	for _, kind := range []hosts.Kind{hosts.Worked, hosts.Stopped, hosts.Ended} {
		want.IDs(t, r.event(kind).Messages)
		want.Equal(t, "standing", r.standing(id), "shown")
	}
	kill()
	a := r.event(hosts.Worked, writer(process.Of(os.Getpid())))
	want.IDs(t, a.Messages, id)
	if err := hosts.Written(t.Context(), r.Ledger, &a); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "standing", r.standing(id), "shown")
	want.IDs(t, r.event(hosts.Stopped).Messages)
	want.Equal(t, "standing", r.standing(id), "read")
}

// A message leased to a session is shown even if the turn that it causes cannot be counted, because the next event
// counts it as read.
func TestShownThoughItsTurnIsNotCounted(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.Send("alice", "bob")
	r.Forbid("UPDATE", "host_sessions", `new.turns > old.turns`, "no")
	want.IDs(t, r.event(hosts.Stopped).Messages, id)
	want.Equal(t, "standing", r.standing(id), "shown")
}

// An event that changes nothing writes nothing, except for one sign of life a minute.
func TestQuietEventsWriteNothing(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.event(hosts.Prompted)
	seen := func() string { return strings.Join(r.Rows(`SELECT seen_at FROM host_sessions`), " ") }
	was := seen()
	r.Clock.Advance(59 * time.Second)
	r.event(hosts.Worked)
	want.Equal(t, "seen at", seen(), was)
	r.Clock.Advance(time.Second)
	r.event(hosts.Worked)
	want.Equal(t, "seen at", seen(), r.Stamp())
}

// TestQuietFor checks how long an event that finds nothing declares the next events to be quiet: until a message
// falls due for the agent or the session must be recorded as seen, and never for longer than a minute, whatever the
// clock does. It is not quiet while another session has messages, or for an agent with a silence limit.
func TestQuietFor(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.event(hosts.Prompted)
	want.Equal(t, "quiet after a prompt", r.event(hosts.Prompted).Quiet, 0)
	r.Clock.Advance(20 * time.Second)
	want.Equal(t, "quiet with nothing due", r.event(hosts.Worked).Quiet, 40*time.Second)

	r.Clock.Advance(-time.Hour)
	want.Equal(t, "quiet after the clock was set back", r.event(hosts.Worked).Quiet, time.Minute)
	r.Clock.Advance(time.Hour)

	later := r.Send("alice", "bob", func(d *orchestrator.Draft) { d.NotBefore = r.Clock.Now().Add(5 * time.Second) })
	want.Equal(t, "quiet before a message is due", r.event(hosts.Worked).Quiet, 5*time.Second)
	r.Clock.Advance(5 * time.Second)
	want.IDs(t, r.event(hosts.Worked).Messages, later)
	want.Equal(t, "quiet while the session has a message", r.event(hosts.Worked).Quiet, 0)

	quiet := r.event(hosts.Worked, inSession("two"), of(process.None())).Quiet
	if quiet > messages.DeadReaderPoll {
		t.Errorf("quiet for %s while another session has messages; want at most %s", quiet, messages.DeadReaderPoll)
	}
}

// Of two living sessions of one agent, the second is informed of the first when it starts, and the first at its
// user's next prompt.
func TestTwoSessionsOfOneName(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	host, _ := newProcess(t)
	want.Equal(t, "other", r.event(hosts.Started).Other, "")
	second := of(host)
	r.Clock.Advance(time.Second)
	want.Equal(t, "other", r.event(hosts.Started, inSession("two"), second).Other, "one")
	r.Clock.Advance(time.Second)
	want.Equal(t, "of the first", r.event(hosts.Prompted).Other, "two")
	r.Clock.Advance(time.Second)
	r.event(hosts.Stopped)
	want.Equal(t, "of the first again", r.event(hosts.Prompted).Other, "")
	r.event(hosts.Ended)
	want.Equal(t, "other", r.event(hosts.Started, inSession("three"), of(process.Of(os.Getppid()))).Other, "two")
}

// A removed agent loses its sessions, and a restored backup brings none back as living.
func TestSessionsOfRemovedAndRestored(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	r := newRoom(t)
	r.event(hosts.Started)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := r.Ledger.BackupTo(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Ledger.Restore(t.Context(), backup, true); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, r.Rows(`SELECT state, pid FROM host_sessions`), "ended 0")
	if _, err := removal.Remove(t.Context(), r.Ledger, removal.Request{Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, r.Rows(`SELECT 1 FROM host_sessions`))
}

// An unknown agent has no sessions.
func TestUnknownAgent(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	_, err := hosts.Happened(t.Context(), r.Ledger,
		hosts.Event{Agent: "nobody", Session: "one", Kind: hosts.Worked, Transcript: transcript{}})
	want.Equal(t, "code", orchestrator.CodeOf(err), orchestrator.UnknownRecipient)
	_, _, err = reading.Wait(t.Context(), r.Ledger, reading.Options{Recipient: "bob", Limit: 1})
	if err != nil {
		t.Error(err)
	}
}

// Messages that a session sends inherit the hops of messages that a hook has shown to it in another process, until
// its user enters a prompt.
func TestPromptEndsAChain(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	hops := func() int {
		t.Helper()
		r.Clock.Advance(time.Second)
		ctx := messages.WithCause(t.Context(), messages.NewCause(nil))
		sent, err := messages.Send(ctx, r.Ledger, orchestrator.Draft{Sender: "bob", Recipient: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		return r.Message(sent.MessageID).Hops
	}
	want.Equal(t, "hops of the first message", hops(), 0)
	r.event(hosts.Started)
	r.shown()
	want.Equal(t, "hops after a message was shown", hops(), 1)
	r.event(hosts.Prompted)
	want.Equal(t, "hops after a prompt", hops(), 0)
	r.shown()
	want.Equal(t, "hops after the next message", hops(), 1)
	r.Clock.Advance(11 * time.Minute)
	want.Equal(t, "hops after a pause", hops(), 0)
}

// Events in a subagent leave the session's state and its count of turns unchanged, because prompts there are not
// the user's. They do not create an unknown session.
func TestSubagentsLeaveTheSession(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	inner := func(e *hosts.Event) { e.Inner = true }
	r.event(hosts.Prompted, inner)
	want.Rows(t, r.Rows(`SELECT count(*) FROM host_sessions`), "0")
	r.event(hosts.Prompted)
	r.Send("alice", "bob")
	r.event(hosts.Stopped)
	before := r.Rows(`SELECT state, turns, continued, prompted_at FROM host_sessions`)
	for _, kind := range []hosts.Kind{hosts.Started, hosts.Prompted, hosts.Worked, hosts.Stopped, hosts.Ended} {
		r.Clock.Advance(time.Minute)
		r.event(kind, inner)
		want.Rows(t, r.Rows(`SELECT state, turns, continued, prompted_at FROM host_sessions`), before...)
	}
}

// TestSessionOpenedTwice checks that the events of a second process of a session, such as its end, prove nothing
// about the model of the first while that runs.
func TestSessionOpenedTwice(t *testing.T) {
	t.Parallel()
	for _, kind := range []hosts.Kind{hosts.Started, hosts.Prompted, hosts.Stopped, hosts.Ended} {
		r := newRoom(t)
		id := r.shown()
		second := of(process.Of(os.Getppid()))
		r.event(kind, second)
		want.Equal(t, "standing after "+string(kind), r.standing(id), "shown")
		r.event(hosts.Stopped, r.sees(hosts.Answered, id), second)
		want.Equal(t, "standing when the transcript has an answer", r.standing(id), "read")
	}
}
