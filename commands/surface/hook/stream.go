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
	// tryAgain is how long a stream waits after the host returned messages, or the database failed.
	tryAgain = 30 * time.Second
	// farewell is the maximum time for the end of a stream.
	farewell = 5 * time.Second
)

// delivery is one output line of Stream.
type delivery struct {
	Session string   `json:"session"`
	IDs     []string `json:"ids"`  // marks of the messages, for the host to confirm or return
	Text    string   `json:"text"` // for the model
}

// Stream writes a line with a delivery to out whenever messages arrive for the caller of env. It reads the events of
// the host from in, one per line:
//
//	session ID     a session begins or continues, and is in use from now on
//	prompted ID    the user has sent a prompt in this session, which is in use from now on
//	idle ID        nothing runs in the session any more
//	confirm MARK...  the model has seen these messages, see hosts.Mark
//	return MARK...   the model will not see these messages
//
//	stands SESSION MARK...    these messages are in a session that another process has left and that will continue
//	answered SESSION MARK...  likewise, and the model has spoken after them
//
// Stream writes the next delivery when the messages of the previous one are confirmed or returned. When in or this
// process ends, the messages that are not confirmed become unread again.
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

// untilRenewed returns the time until the budget of the next hour has begun.
func untilRenewed(now time.Time) time.Duration { return cost.Renewed(now).Add(time.Second).Sub(now) }

// Idle reads in without writing anything, and returns when in or ctx ends.
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

// stream is the state of Stream.
type stream struct {
	*Host
	env  commands.Env
	out  io.Writer
	self process.ID // owns the leases; the host ends this process when it exits

	session  string                  // in use; "" if none yet
	sessions []string                // all sessions that were in use
	recalled map[string]recollection // of continued sessions, until the next event in each
	works    bool                    // something runs in the session
	next     hosts.Kind              // event that is not recorded yet; "" if none
	shown    delivery                // delivery that is not yet confirmed or returned
	again    <-chan time.Time        // when to check again after a failure

	prompted  bool         // a prompt of the user could not be recorded
	unsettled []settlement // settlements that could not be recorded
}

// settlement records whether the messages with some marks were seen in a session.
type settlement struct {
	session string
	marks   []string
	seen    bool
}

// recollection holds the messages, by their marks, in a session that another process has left.
type recollection map[string]hosts.Sight

// Sights implements hosts.Transcript.
func (r recollection) Sights() hosts.Sights { return hosts.Sights{Of: r} }

// readLines returns a channel that receives the lines of in, until in ends.
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

// told processes a line of the host. It ignores unknown lines.
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
		if s.works = len(s.shown.IDs) > 0; !s.works { // an unsettled delivery begins a turn
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

// recalls records the state of messages in a session, for the next event in that session.
func (s *stream) recalls(session string, marks []string, sight hosts.Sight) {
	if s.recalled[session] == nil {
		s.recalled[session] = recollection{}
	}
	for _, mark := range marks {
		s.recalled[session][mark] = sight
	}
}

// uses makes a session the one in use.
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

// due schedules an event to be recorded next. A prompt of the user takes precedence over other events.
func (s *stream) due(kind hosts.Kind) {
	if s.next != hosts.Prompted && s.again == nil && s.session != "" {
		if s.prompted {
			kind = hosts.Prompted
		}
		s.next = kind
	}
}

// arrived schedules a check for messages, unless an event is scheduled already.
func (s *stream) arrived() {
	switch {
	case s.next != "":
	case s.works:
		s.due(hosts.Woken)
	default:
		s.due(hosts.Rested)
	}
}

// settle records that messages were seen or returned, and ends the delivery with respect to them. Marks that are not
// part of the delivery belong to one of the continued sessions.
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
	s.arrived() // for messages that did not fit or have arrived since
}

// settleAll records all open settlements and reports whether that succeeded. Failed ones are tried again later.
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

// rest pauses the stream for tryAgain, or until the session is used.
func (s *stream) rest() {
	s.prompted = s.prompted || s.next == hosts.Prompted
	s.next, s.again = "", time.After(tryAgain)
}

// goesOn ends a rest.
func (s *stream) goesOn() {
	s.again = nil
	s.arrived()
}

// look records the scheduled event and writes a delivery if there are messages, unless a delivery is open. An error
// means that the host has gone.
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
		return nil // nothing else justifies a turn
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

// end records the end of the sessions, so that messages that the host has not confirmed become unread again.
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
