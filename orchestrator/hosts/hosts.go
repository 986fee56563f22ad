// Package hosts shows an agent's messages to the model that works in a session of an agent host, such as Claude Code,
// and keeps what is known of these sessions. The host's hooks tell of each Event. Source: hosts.md.
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

// Kind is what has happened in a session.
type Kind string

// The kinds of events. At each but Ended the host may take text for its model.
const (
	Started  Kind = "started"  // the session begins, or goes on where another process has left it
	Prompted Kind = "prompted" // its user said something
	Woken    Kind = "woken"    // something other than its user begins a turn
	Nudged   Kind = "nudged"   // the turn goes on since the end of it was answered with how many messages there are
	Worked   Kind = "worked"   // a tool call has ended
	Stopped  Kind = "stopped"  // the turn is about to end, and goes on if there is something to show
	Rested   Kind = "rested"   // nothing runs any more, and what is shown begins a turn
	Ended    Kind = "ended"    // the session is over
)

// Sight is what a session's transcript tells of a message that was shown.
type Sight int

// Where a message stands in a transcript.
const (
	Unknown  Sight = iota // the transcript cannot be read
	Absent                // it has not got there, or was thrown away
	Present               // it is there, and the model has not said anything since
	Answered              // the model has spoken after it
)

// Transcript is what a host has written down of a session.
type Transcript interface {
	Sights() Sights
}

// Sights is what a transcript tells. A zero time is not known.
type Sights struct {
	Of       map[string]Sight // of messages by their marks, see Mark; nil: it cannot be read
	Since    time.Time        // what was written before was not looked at; the zero time if all was
	Written  time.Time        // when it was last written
	Prompted time.Time        // when its user has said the last thing that stands there
}

// of is what it tells of a message that was shown at a time.
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

// Event is what a hook tells.
type Event struct {
	Agent   string
	Program string     // the host: claude, codex and others
	Session string     // the host's own name of the session
	Process process.ID // of the host; the zero value if none proves that the session lives
	Kind    Kind
	// nil: there is none to read. With Settled, set only for a session that another process has left
	Transcript Transcript

	// Inner says that it has happened in a subagent, whose model is not the session's. It shows only that a session lives
	// that is known: its state stays, nothing is settled, and nothing shown.
	Inner bool

	// Writer is the process that writes the answer, and says by Written that it has. If it ends before that, the
	// messages are unread again. The zero value counts them as shown at once.
	Writer process.ID

	// Nudge says that the answer is shown to the user and not only to the model. So at Stopped it takes no messages,
	// and tells only how many are left. If there are any, the turn goes on, and an event follows of the kind Nudged.
	Nudge bool

	// Settled says that the process itself tells by Settle what the model has seen. Then an event settles only what
	// another process has shown. When the session ends, what is still shown is lost.
	Settled bool

	// Forgets says that the host does not keep for a later process what it is answered at Started. So nothing is shown
	// there: it comes with the prompt that follows.
	Forgets bool

	told  *Sights // what the transcript tells, once it was asked
	stays string  // the state of the session, if the event leaves it

	// Fits returns how many of these messages, from the first on, the host takes in one answer; nil is all.
	Fits func(ms []orchestrator.Message) int
	// Size returns how many bytes a message takes in an answer, and Line how a digest names some of the same kind. Without
	// them what is shown is neither bounded by the budget nor counted.
	Size func(m *orchestrator.Message) int
	Line func(g *Group) string
}

// Answer is what a hook is to show.
type Answer struct {
	Messages []orchestrator.Message // leased to the session
	Marks    []string               // of these messages, see Mark
	Left     int                    // messages that stay unread and come with a later event; after Nudge all of them
	Size     int                    // bytes of the text that shows it all, set by whoever makes that
	Digest   Digest                 // of what stays unread and does not come by itself
	// turns that messages have caused since the user last said anything, told at Prompted
	Turns int
	// another living session of the agent, told at Started, and at Prompted if it is new; "" is none
	Other string
	// Quiet is for how long another event of the kind Worked finds nothing to note or to show either, unless somebody
	// commits. 0 is not known.
	Quiet time.Duration

	agent, session string
	lease          messages.ReadingLease // on the messages
	uses           []cost.Use            // of the context
}

// Empty reports whether there is nothing to show.
func (a *Answer) Empty() bool { return len(a.Messages)+a.Left+len(a.Digest.Lines) == 0 }

const (
	// maxShown bounds the messages of one answer.
	maxShown = 20
	// maxRecognized bounds how many messages in a transcript are looked up.
	maxRecognized = 1000
	// maxContinued bounds how often in a row the end of a turn may be put off. Claude Code ends it by itself after 8.
	maxContinued = 5
	// unprovedLease is how long a session may keep messages of which nothing is heard, where no process proves that it
	// lives.
	unprovedLease = 10 * time.Minute
	// quietWrite is how long a session may only be seen, without anything to note, before that is noted.
	quietWrite = time.Minute
	// spoken is how much later than a message was shown the end of a tool call must be to tell that the model has
	// spoken since: a model calls several tools at once, and they end one after the other.
	spoken = 2 * time.Second
	// thrownAway is how much later than a message was shown a prompt must be that tells that the message was thrown
	// away.
	thrownAway = 5 * time.Second
)

// Happened notes an event, settles what was shown to the session before, and returns what is to be shown now. Without
// anything to note or to show it writes nothing.
//
// A message that is shown is leased to the session, and hidden from every other reader of the agent. A later event
// decides: it is read if the transcript has words of the model after it, or cannot tell; it is unread again if it was
// thrown away, or if the session has ended without an answer.
//
// Once the answer is written, say so by Written; if it cannot be, GiveBack it. Errors: those of the database;
// unknown_recipient for an agent that is not known.
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
	// These sessions may have been shown messages under leases that ended without them.
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
		// The session has them by now, and its next event would count them as seen: they are shown whatever failed
		// afterwards.
		l.Log.Warn("cannot count the messages that were shown to a session", "agent", e.Agent, "session", e.Session, "error", err)
		err = nil
	}
	if err == nil && quiet && a.Empty() {
		a.Quiet, err = quietFor(ctx, l, &e, &before, looked)
	}
	return a, err
}

// quietFor returns for how long nothing becomes due for the agent, and the session need not be noted as seen. looked is
// when the event came. An agent with a limit to its silence is never quiet: each look writes that it was heard of.
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
	return min(until.Sub(l.Now()), quietWrite), nil // by a clock that was set back since, the session was seen later
}

// show takes what is unread, as far as it fits, unless messages alone have kept the session going for long enough.
func show(ctx context.Context, l *ledger.Ledger, e *Event, before *session, a *Answer) error {
	begins := e.Kind == Stopped || e.Kind == Woken || e.Kind == Rested || e.Kind == Started && e.Settled
	byWaiter := (e.Kind == Woken || e.Kind == Stopped) && !e.Settled && before.nudgedAt > before.seenAt // which has counted the turn already
	counts := begins && !byWaiter && (e.Kind != Rested || e.Settled)
	if counts {
		conf, err := l.Configuration(ctx)
		if err != nil {
			return err
		}
		if before.turns >= conf.Settings.HookTurns || e.Kind == Stopped && before.continued >= maxContinued {
			return nil // they wait for the user
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

// take leases what is unread to the session, as far as it fits.
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

// count delivers what is due, and says how many messages there are.
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

// unread counts the unread messages to an agent that no digest has named in a session; with "" all of them.
func unread(ctx context.Context, l *ledger.Ledger, agent, session string) (int, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (int, error) {
		n, err := c.Number(`SELECT count(*) FROM agent_inbox i WHERE i.recipient = ?1 AND i.read_at = ''
			AND (?2 = '' OR `+ledger.Untold(`?2`)+`)`,
			agent, session)
		return int(n), err
	})
}

// lease is how a message is lent to the session. Where a process proves that the session lives, its events and its end
// decide, and not the time.
func (e *Event) lease() messages.ReadingLease {
	lease := messages.ReadingLease{
		For: unprovedLease, Holder: e.Program, Session: e.Session, Reader: e.Process, Writer: e.Writer,
	}
	if e.Process.PID > 0 {
		lease.For = messages.MaxReadingLease
	}
	return lease
}

// Written notes that an answer was written; call it once. It notes what the answer put into the context. If the event
// had a Writer, the session's later events decide what becomes of the messages. A hook that is killed never gets here:
// its host takes no answer from it, so the model has not seen them.
func Written(ctx context.Context, l *ledger.Ledger, a *Answer) error {
	if len(a.uses) == 0 && len(a.Messages) == 0 {
		return nil
	}
	uses := slices.Clone(a.uses) // of which the messages are noted already
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

// GiveBack makes what an answer was to show unread again, since it could not be written.
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
