// Package hosts shows an agent's messages to the model in a session of an agent host, such as Claude Code, and
// records the state of these sessions. The host's hooks report each Event. Source: hosts.md.
package hosts

import (
	"context"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
)

// Kind is the kind of an event in a session.
type Kind string

// The kinds of events. At every event except Ended the host may accept text for its model.
const (
	Started  Kind = "started"  // the session begins, or another process resumes it
	Prompted Kind = "prompted" // the user entered a prompt
	Woken    Kind = "woken"    // something other than the user begins a turn
	Nudged   Kind = "nudged"   // the turn goes on after its end was answered with the number of messages
	Worked   Kind = "worked"   // a tool call has ended
	Stopped  Kind = "stopped"  // the turn is about to end; it goes on if there is something to show
	Rested   Kind = "rested"   // nothing runs any more; anything shown begins a turn
	Ended    Kind = "ended"    // the session has ended
)

// Sight is the state of a shown message in a session's transcript.
type Sight int

// The states of a message in a transcript.
const (
	Unknown  Sight = iota // the transcript cannot be read
	Absent                // the message has not arrived there or was discarded
	Present               // it is there, and the model has not spoken since
	Answered              // it is there, and the model has spoken after it
)

// Transcript is a host's record of a session.
type Transcript interface {
	Sights() Sights
}

// Sights is the content of a transcript, as far as hosts uses it. A zero time is unknown.
type Sights struct {
	Of       map[string]Sight // by the messages' marks, see Mark; nil: the transcript cannot be read
	Since    time.Time        // older entries were not read; zero if all were
	Written  time.Time        // when the transcript was last written
	Prompted time.Time        // when the user entered the last prompt in it
}

// of returns the sight of a message that was shown at a time.
func (s *Sights) of(mark string, shown time.Time) Sight {
	sight, stands := s.Of[mark]
	switch {
	case stands:
		return sight
	case s.Of == nil || mark == "" || s.Since.After(shown):
		return Unknown
	}
	return Absent
}

// Event is an event that a hook reports.
type Event struct {
	Agent   string
	Program string     // the host: claude, codex and others
	Session string     // the host's name of the session
	Process process.ID // of the host; zero if no process proves that the session lives
	Kind    Kind
	// Transcript is nil if there is none. With Settled, it is set only for a session that another process has left.
	Transcript Transcript

	// Inner reports that the event happened in a subagent, whose model is not the session's. Such an event only
	// shows that a known session lives: its state stays, nothing is settled, and nothing is shown.
	Inner bool

	// Writer is the process that writes the answer and calls Written afterwards. If the process ends before that,
	// the messages become unread again. With the zero value the messages count as shown at once.
	Writer process.ID

	// Nudge reports that the host shows the answer to the user, not only to the model. At Stopped the answer
	// therefore contains only the number of unread messages. If there are any, the turn goes on, and an event of
	// the kind Nudged follows.
	Nudge bool

	// Settled reports that the process itself calls Settle with what its model has seen. An event then settles only
	// messages that another process has shown. When the session ends, the messages that are still shown count as
	// lost.
	Settled bool

	// Forgets reports that a later process of the session does not get the answer to Started. Nothing is shown
	// there; the messages follow with the next prompt.
	Forgets bool

	told  *Sights // the transcript's content, once it was read
	stays string  // the state of the session, if the event does not change it

	// Fits returns how many of these messages, counted from the first, the host accepts in one answer; nil: all.
	Fits func(ms []orchestrator.Message) int
	// Size returns the number of bytes that a message takes in an answer. Line returns the line of a digest for a
	// group. Without them the budget neither limits nor counts what is shown.
	Size func(m *orchestrator.Message) int
	Line func(g *Group) string
}

// Answer is what a hook shows.
type Answer struct {
	Messages []orchestrator.Message // leased to the session
	Marks    []string               // of these messages, see Mark
	Left     int                    // messages that stay unread for a later event; after Nudge all of them
	Size     int                    // bytes of the whole text, set by the caller that formats it
	Digest   Digest                 // of unread messages that no event shows automatically
	// Turns is the number of turns that messages have caused since the user's last prompt; set at Prompted.
	Turns int
	// Other is another living session of the agent, set at Started, and at Prompted if it is new; "" is none.
	Other string
	// Quiet is how long further events of the kind Worked will find nothing to record or to show, unless somebody
	// commits. 0 is unknown.
	Quiet time.Duration

	agent, session string
	lease          messages.ReadingLease // on the messages
	uses           []cost.Use            // of the context
}

// Empty reports whether there is nothing to show.
func (a *Answer) Empty() bool { return len(a.Messages)+a.Left+len(a.Digest.Lines) == 0 }

const (
	// maxShown is the maximum number of messages in one answer.
	maxShown = 20
	// maxRecognized is the maximum number of messages in a transcript that are looked up.
	maxRecognized = 1000
	// maxContinued is the maximum number of times in a row that the end of a turn is put off. Claude Code itself
	// ends the turn after 8.
	maxContinued = 5
	// unprovedLease is how long a silent session may keep messages if no process proves that it lives.
	unprovedLease = 10 * time.Minute
	// quietWrite is how long events of a session without anything else to record are not recorded.
	quietWrite = time.Minute
	// spoken is the minimum time between the showing of a message and the end of a tool call that proves that the
	// model has spoken since. A model calls several tools at once, and they end one after another.
	spoken = 2 * time.Second
	// thrownAway is the minimum time between the showing of a message and a prompt that proves that the message was
	// discarded.
	thrownAway = 5 * time.Second
)

// Happened records an event, settles the messages that were shown to the session before, and returns what to show
// now. It writes nothing if there is nothing to record or to show.
//
// A shown message is leased to the session and hidden from every other reader of the agent. A later event decides
// about it. The message is read if the transcript has words of the model after it, or if the transcript gives no
// evidence. It is unread again if it was discarded, or if the session ended without an answer.
//
// Once the answer is written, call Written; if it cannot be written, call GiveBack. Errors: those of the database;
// unknown_recipient for an unknown agent.
func Happened(ctx context.Context, l *ledger.Ledger, e Event) (a Answer, err error) {
	looked := l.Now()
	known, err := look(ctx, l, &e)
	if err != nil {
		return a, err
	}
	var verdicts map[string]verdict
	if !e.Inner {
		verdicts = e.judge(known.leases, l.Now())
	} else if e.Kind, e.stays = Worked, known.row.state; e.stays == "" || e.stays == "ended" {
		return a, nil
	}
	before := known.row
	quiet := e.Kind == Worked && len(known.leases) == 0
	if known.changes(&e, verdicts, l.Now()) {
		quiet = false
		err = l.Write(ctx, store.Of(e.Agent), func(t *ledger.Tx) error {
			return note(t, &e, verdicts)
		})
		if err != nil {
			return a, err
		}
	}
	switch {
	case e.Kind == Ended || e.Inner:
		return a, nil
	case e.Kind == Prompted:
		a.Turns, a.Other = before.turns, known.other
	case e.Kind == Started:
		a.Other = known.other
	}
	// Messages may have been shown to these sessions under leases that ended without them.
	if e.Kind == Started || e.Process.PID == 0 || e.Settled && e.Transcript != nil {
		if err := recognize(ctx, l, &e); err != nil {
			return a, err
		}
	}
	if e.Kind == Started && e.Forgets {
		return a, nil
	}
	err = show(ctx, l, &e, &before, &a)
	if err != nil && len(a.Messages) > 0 {
		// The session has the messages by now, and its next event would count them as seen. Therefore they are
		// shown, whatever failed afterwards.
		l.Log.Warn("cannot count the messages that were shown to a session", "agent", e.Agent, "session", e.Session, "error", err)
		err = nil
	}
	if err == nil && quiet && a.Empty() {
		a.Quiet, err = quietFor(ctx, l, &e, &before, looked)
	}
	return a, err
}

// quietFor returns how long nothing becomes due for the agent and the session need not be recorded as seen. looked
// is the time of the event. An agent with a limit on its silence is never quiet, because every look records that it
// is alive.
func quietFor(ctx context.Context, l *ledger.Ledger, e *Event, before *session, looked time.Time) (time.Duration,
	error) {
	until := orchestrator.ParseStamp(before.seenAt).Add(quietWrite)
	next, err := delivery.NextDueOf(ctx, l, e.Agent, looked)
	if err != nil {
		return 0, err
	}
	if !next.IsZero() && next.Before(until) {
		until = next
	}
	return min(until.Sub(l.Now()), quietWrite), nil // if the clock was set back, seenAt can be in the future
}

// show takes the unread messages, as far as they fit, unless messages alone have kept the session going for too
// long.
func show(ctx context.Context, l *ledger.Ledger, e *Event, before *session, a *Answer) error {
	begins := e.Kind == Stopped || e.Kind == Woken || e.Kind == Rested || e.Kind == Started && e.Settled
	// The waiter has then counted the turn already.
	byWaiter := (e.Kind == Woken || e.Kind == Stopped) && !e.Settled && before.nudgedAt > before.seenAt
	counts := begins && !byWaiter && (e.Kind != Rested || e.Settled)
	if counts {
		conf, err := l.Configuration(ctx)
		if err != nil {
			return err
		}
		if before.turns >= conf.Settings.HookTurns || e.Kind == Stopped && before.continued >= maxContinued {
			return nil // the messages wait for the user
		}
	}
	matters, err := e.matters(ctx, l)
	if err != nil || !matters {
		return err
	}
	if e.Nudge && e.Kind == Stopped {
		err = count(ctx, l, e, a)
	} else {
		err = take(ctx, l, e, a)
	}
	if err == nil && begins && !a.Empty() {
		err = l.Write(ctx, store.Of(e.Agent), func(t *ledger.Tx) error { return beginTurn(t, e, counts) })
	}
	return err
}

// take leases the unread messages to the session, as far as they fit.
func take(ctx context.Context, l *ledger.Ledger, e *Event, a *Answer) error {
	key, err := markKey(ctx, l)
	if err != nil {
		return err
	}
	var budget cost.Budget
	over := false
	options := reading.Options{Recipient: e.Agent, Limit: maxShown, Fits: e.Fits, Lease: e.lease(), Untold: told(e.Session)}
	if e.Size != nil {
		options.Affords = func(t *ledger.Tx, ms []orchestrator.Message) (n int, err error) {
			over = false // the transaction may run again
			if budget, err = cost.Left(t.Conn, t.Config(), e.Agent, t.Clock); err != nil {
				return 0, err
			}
			n = len(budget.Spend(ms, e.Size))
			over = n < len(ms)
			return n, nil
		}
		options.Taken = func(t *ledger.Tx, ms []orchestrator.Message) error {
			a.uses = budget.Spend(ms, e.Size)
			return cost.Note(t, e.Agent, a.uses)
		}
	}
	ms, more, err := reading.Wait(ctx, l, options)
	if err != nil {
		return err
	}
	for i := range ms {
		a.Marks = append(a.Marks, markWith(key, &ms[i]))
	}
	a.Messages, a.lease, a.agent, a.session = ms, e.lease(), e.Agent, e.Session
	switch {
	case over:
		err = digest(ctx, l, e, &budget, a)
	case more:
		a.Left, err = unread(ctx, l, e.Agent, told(e.Session))
	}
	return err
}

// count delivers the messages that are due and counts the unread messages.
func count(ctx context.Context, l *ledger.Ledger, e *Event, a *Answer) error {
	ms, more, err := reading.Wait(ctx, l,
		reading.Options{Recipient: e.Agent, Limit: maxShown, Peek: true, Untold: told(e.Session)})
	if err != nil {
		return err
	}
	a.Left = len(ms)
	if more {
		a.Left, err = unread(ctx, l, e.Agent, told(e.Session))
	}
	return err
}

// unread counts an agent's unread messages that no digest has listed in the session; with session "" it counts all.
func unread(ctx context.Context, l *ledger.Ledger, agent, session string) (int, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (int, error) {
		n, err := c.Number(`SELECT count(*) FROM agent_inbox i WHERE i.recipient = ?1 AND i.read_at = ''
			AND (?2 = '' OR `+ledger.Untold(`?2`)+`)`,
			agent, session)
		return int(n), err
	})
}

// lease returns the terms on which messages are leased to the session. If a process proves that the session lives,
// its events and its end decide, not the time.
func (e *Event) lease() messages.ReadingLease {
	lease := messages.ReadingLease{
		For: unprovedLease, Holder: e.Program, Session: e.Session, Reader: e.Process, Writer: e.Writer,
	}
	if e.Process.PID > 0 {
		lease.For = messages.MaxReadingLease
	}
	return lease
}

// Written records that an answer was written, and what it added to the context. Call it once. If the event had a
// Writer, the session's later events decide about the messages. A hook that is killed does not call Written; its
// host ignores its answer, so the model has not seen the messages.
func Written(ctx context.Context, l *ledger.Ledger, a *Answer) error {
	if len(a.uses) == 0 && len(a.Messages) == 0 {
		return nil
	}
	uses := slices.Clone(a.uses) // the messages among them are already recorded
	around := a.Size
	for i := range uses {
		around -= uses[i].Bytes
		if i < len(a.Messages) {
			uses[i].Messages, uses[i].Bytes = 0, 0
		}
	}
	if len(uses) > 0 {
		uses[0].Bytes += max(0, around)
	}
	return l.WriteLazily(ctx, store.Of(a.agent), func(t *ledger.Tx) error {
		if a.lease.Writer.PID > 0 {
			if err := reading.WrittenIn(t, a.Messages, a.lease); err != nil {
				return err
			}
		}
		if err := cost.Note(t, a.agent, uses); err != nil {
			return err
		}
		return a.Digest.noteTold(t, a.agent, a.session)
	})
}

// GiveBack makes the messages of an answer unread again because the answer could not be written.
func GiveBack(ctx context.Context, l *ledger.Ledger, a *Answer) error {
	if err := reading.Unread(ctx, l, a.Messages); err != nil || len(a.uses) == 0 || len(a.Messages) == 0 {
		return err
	}
	uses := slices.Clone(a.uses[:len(a.Messages)])
	for i := range uses {
		uses[i].Messages, uses[i].Bytes = -uses[i].Messages, -uses[i].Bytes
	}
	return l.Write(ctx, store.Of(a.agent), func(t *ledger.Tx) error { return cost.Note(t, a.agent, uses) })
}
