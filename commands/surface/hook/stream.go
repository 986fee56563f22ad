package hook

import (
	"bufio"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
)

const (
	// tryAgain is how long a stream waits after the host has refused something, or the database has failed.
	tryAgain = 30 * time.Second
	// farewell bounds how long the end of a stream may take.
	farewell = 5 * time.Second
)

// delivery is a line that a Stream writes.
type delivery struct {
	Session string   `json:"session"`
	IDs     []string `json:"ids"`  // the marks of the messages in the text, which the host is to confirm or to return
	Text    string   `json:"text"` // for the model
}

// Stream writes a line with a delivery to out whenever messages come for its caller. It reads from in what happens in
// the host, a line each:
//
//	session ID     a session begins, or is gone on with, and is the one in use from now on
//	prompted ID    its user has said something there, and uses this session from now on
//	idle ID        nothing runs there any more
//	confirm MARK...  the model has seen these messages, see hosts.Mark
//	return MARK...   it will not see them
//
//	stands SESSION MARK...    these messages stand in a session that another process has left, and is about to go on
//	answered SESSION MARK...  likewise, and the model has spoken after them
//
// The next delivery is written when the messages of the one before are confirmed or returned. When in ends, or this
// process does, what is not confirmed is unread again.
func (h *Host) Stream(ctx context.Context, env commands.Env, in io.Reader, out io.Writer) error {
	if !h.Streams {
		return orchestrator.Errorf(orchestrator.InvalidParams, "%s does not support a stream of messages", h.Name)
	}
	if err := trusted(ctx, env); err != nil {
		return err
	}
	agent, err := h.Caller(ctx, env)
	if err != nil {
		return err
	}
	env.Caller.Name = agent
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news, stop, err := reading.Arrivals(ctx, env.Ledger, env.Caller.Name)
	if err != nil {
		return err
	}
	defer stop()
	s := &stream{Host: h, env: env, out: out, self: process.Of(os.Getpid()), recalled: map[string]recollection{}}
	defer s.end(ctx)
	lines := readLines(ctx, in)
	renewed := time.NewTimer(untilRenewed(time.Now()))
	defer renewed.Stop()
	for {
		if err := s.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case line, open := <-lines:
			if !open {
				return nil
			}
			s.told(ctx, line)
		case <-news:
			s.arrived()
		case <-s.again:
			s.goesOn()
		case now := <-renewed.C:
			renewed.Reset(untilRenewed(now))
			s.arrived()
		}
	}
}

// untilRenewed is how long it takes until the budget of the next hour has begun.
func untilRenewed(now time.Time) time.Duration { return cost.Renewed(now).Add(time.Second).Sub(now) }

// Idle is a Stream that has nothing to write: it returns when in ends or ctx does.
func Idle(ctx context.Context, in io.Reader) {
	for lines := readLines(ctx, in); ; {
		select {
		case _, open := <-lines:
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// stream is the state of a Stream.
type stream struct {
	*Host
	env  commands.Env
	out  io.Writer
	self process.ID // the leases are bound to: the host ends this process with itself

	session  string                  // in use; "" is none yet
	sessions []string                // that were in use
	recalled map[string]recollection // of sessions that go on, until the next event in each
	works    bool                    // something runs in the session
	next     hosts.Kind              // what has happened there and is not noted yet; "" is nothing
	shown    delivery                // that is neither confirmed nor returned
	again    <-chan time.Time        // when to look again after a failure

	prompted  bool         // the user has said something, which could not be noted
	unsettled []settlement // what could not be noted
}

// settlement is what became of messages in a session.
type settlement struct {
	session string
	marks   []string
	seen    bool
}

// recollection is what stands in a session that another process has left, by its marks.
type recollection map[string]hosts.Sight

// Sights implements hosts.Transcript.
func (r recollection) Sights() hosts.Sights { return hosts.Sights{Of: r} }

// readLines sends the lines of in, until it ends.
func readLines(ctx context.Context, in io.Reader) <-chan string {
	lines := make(chan string)
	orchestrator.GoSafe("input of a stream", nil, func() {
		defer close(lines)
		scanner := bufio.NewScanner(in)
		for scanner.Buffer(nil, maxInput); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	})
	return lines
}

// told takes a line of the host's. One that it does not know means nothing.
func (s *stream) told(ctx context.Context, line string) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return
	}
	switch what, words := words[0], words[1:]; what {
	case "session":
		s.uses(words[0], hosts.Started)
	case "prompted":
		s.uses(words[0], hosts.Prompted)
		s.works = true
	case "idle":
		if words[0] != s.session {
			return
		}
		if s.works = len(s.shown.IDs) > 0; !s.works { // a delivery on its way begins a turn
			s.due(hosts.Rested)
		}
	case "confirm", "return":
		s.settle(ctx, words, what == "confirm")
	case "stands":
		s.recalls(words[0], words[1:], hosts.Present)
	case "answered":
		s.recalls(words[0], words[1:], hosts.Answered)
	}
}

// recalls keeps where messages stand in a session, for the next event there.
func (s *stream) recalls(session string, marks []string, sight hosts.Sight) {
	if s.recalled[session] == nil {
		s.recalled[session] = recollection{}
	}
	for _, mark := range marks {
		s.recalled[session][mark] = sight
	}
}

// uses takes a session for the one in use.
func (s *stream) uses(session string, kind hosts.Kind) {
	if s.session != session {
		s.session, s.next, s.works, s.prompted = session, "", false, false
	}
	if !slices.Contains(s.sessions, session) {
		s.sessions = append(s.sessions, session)
	}
	s.again = nil
	s.due(kind)
}

// due notes what is to be told of next. What its user says counts more than what else happens.
func (s *stream) due(kind hosts.Kind) {
	if s.next != hosts.Prompted && s.again == nil && s.session != "" {
		if s.prompted {
			kind = hosts.Prompted
		}
		s.next = kind
	}
}

// arrived looks for messages, unless that is about to happen anyway.
func (s *stream) arrived() {
	switch {
	case s.next != "":
	case s.works:
		s.due(hosts.Woken)
	default:
		s.due(hosts.Rested)
	}
}

// settle ends the delivery as far as these messages go. Those that are not of it stand in some session that goes on.
func (s *stream) settle(ctx context.Context, marks []string, seen bool) {
	sessions := s.sessions
	settles := func(mark string) bool { return slices.Contains(marks, mark) }
	if slices.ContainsFunc(s.shown.IDs, settles) {
		sessions = []string{s.shown.Session}
	}
	s.shown.IDs = slices.DeleteFunc(s.shown.IDs, settles)
	for _, session := range sessions {
		s.unsettled = append(s.unsettled, settlement{session, marks, seen})
	}
	for _, r := range s.recalled {
		for _, mark := range marks {
			if _, stands := r[mark]; stands && seen {
				r[mark] = hosts.Answered
			}
		}
	}
	if !s.settleAll(ctx) || !seen {
		s.rest()
		return
	}
	s.arrived() // what did not fit, or came meanwhile
}

// settleAll notes what became of messages, and reports whether all of it could be. What cannot is tried again.
func (s *stream) settleAll(ctx context.Context) bool {
	for ; len(s.unsettled) > 0; s.unsettled = s.unsettled[1:] {
		of := s.unsettled[0]
		if err := hosts.Settle(ctx, s.env.Ledger, s.env.Caller.Name, of.session, of.marks, of.seen); err != nil {
			s.env.Log.Error("cannot record which messages the host showed", "marks", of.marks, "error", err)
			return false
		}
	}
	return true
}

// rest does nothing for a while, or until the user says something.
func (s *stream) rest() {
	s.prompted = s.prompted || s.next == hosts.Prompted
	s.next, s.again = "", time.After(tryAgain)
}

// goesOn is the end of a rest.
func (s *stream) goesOn() {
	s.again = nil
	s.arrived()
}

// look notes what has happened and writes a delivery if there is one, unless one is open. An error means that the host
// is gone.
func (s *stream) look(ctx context.Context) error {
	if s.again == nil && !s.settleAll(ctx) {
		s.rest()
	}
	if s.next == "" || len(s.shown.IDs) > 0 {
		return nil
	}
	kind, agent := s.next, s.env.Caller.Name
	e := hosts.Event{Agent: agent, Program: s.Name, Session: s.session, Process: s.self, Kind: kind, Fits: s.fits,
		Size: s.bytes, Line: line, Settled: true}
	if r := s.recalled[s.session]; r != nil {
		e.Transcript = r
	}
	a, err := hosts.Happened(ctx, s.env.Ledger, e)
	if err != nil {
		if ctx.Err() == nil {
			s.env.Log.Warn("cannot send messages to the host", "agent", agent, "error", err)
			s.rest()
		}
		return nil
	}
	s.next, s.prompted = "", false
	delete(s.recalled, s.session)
	if len(a.Messages)+len(a.Digest.Lines) == 0 {
		return nil // nothing else is worth a turn
	}
	s.works = true
	s.shown = delivery{Session: s.session, IDs: append([]string{}, a.Marks...),
		Text: s.frame(agent, kind, &a, verified(ctx, s.env, a.Messages))}
	a.Size = len(s.shown.Text)
	if _, err = s.out.Write(mustJSON(s.shown)); err != nil {
		return err
	}
	if err := hosts.Written(ctx, s.env.Ledger, &a); err != nil && ctx.Err() == nil {
		s.env.Log.Error("cannot record the context size of messages", "agent", agent, "error", err)
	}
	return nil
}

// end tells that the sessions are over, so that what the host has not confirmed is unread again.
func (s *stream) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	s.settleAll(ctx)
	for _, session := range s.sessions {
		_, err := hosts.Happened(ctx, s.env.Ledger, hosts.Event{
			Agent: s.env.Caller.Name, Program: s.Name, Session: session, Process: s.self, Kind: hosts.Ended,
			Settled: true,
		})
		if err != nil {
			s.env.Log.Error("cannot record the end of a session", "session", session, "error", err)
		}
	}
}
