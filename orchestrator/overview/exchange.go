package overview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Two agents that exchange more than maxExchanged messages within exchangeTime, without a message from a person, are
// most likely in a loop, if both of them write.
const (
	exchangeTime = 10 * time.Minute
	maxExchanged = 30
	leastShare   = 5 // each agent has sent at least one message in this many
)

// exchange counts what two agents recently wrote to each other.
type exchange struct {
	a, b     string // in alphabetical order
	byA, byB int64
}

// checkHolds finds messages between two agents that somebody holds back.
func checkHolds(x *examination) error {
	for _, h := range x.conf.Holds(orchestrator.Stamp(x.now)) {
		n, err := hosts.Waiting(x.c, &h)
		if err != nil {
			return err
		}
		x.add(Finding{
			About: h.A + " and " + h.B, Level: Note, Count: int64(n), From: []string{h.A, h.B}, Since: h.Since,
			Says: fmt.Sprintf("Messages between %s and %s are %s", h.A, h.B, &h),
			Do:   fmt.Sprintf("To release these messages, run `mailroom hold %s %s --off`", h.A, h.B),
		})
	}
	return nil
}

// Loops returns the pairs of agents that exchange too many messages: see checkExchanges.
func Loops(ctx context.Context, l *ledger.Ledger) (pairs [][2]string, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		s, err := takeSnapshot(c, l, conf)
		if err != nil {
			return err
		}
		list, err := s.runaway()
		pairs = nil
		for i := range list {
			pairs = append(pairs, [2]string(list[i].From))
		}
		return err
	})
	return pairs, err
}

// checkExchanges finds the pairs of agents that recently exchanged too many messages, the busiest pairs first.
func checkExchanges(x *examination) error {
	list, err := x.runaway()
	for _, f := range list {
		x.add(f)
	}
	return err
}

// runaway returns a finding for each pair of agents that is most likely in a loop.
func (s *snapshot) runaway() (list []Finding, err error) {
	word := map[string]string{} // when a person last wrote to each agent
	err = s.c.Query(`SELECT agent, max(prompted_at) FROM host_sessions WHERE prompted_at >= ?1 GROUP BY agent`,
		func(row store.Row) error {
			word[row.Text(0)] = row.Text(1)
			return nil
		}, orchestrator.Stamp(s.now.Add(-exchangeTime)))
	if err != nil {
		return nil, err
	}
	found := map[[2]string]*exchange{}
	for i := range s.recent {
		w := &s.recent[i]
		if isPerson := w.sender == orchestrator.Operator || w.sender == orchestrator.User; isPerson && w.lately > 0 {
			word[w.recipient] = max(word[w.recipient], w.lastAt)
		}
		if from, to := s.members[w.sender], s.members[w.recipient]; w.lately == 0 || w.sender == w.recipient ||
			from == nil || to == nil || from.BuiltIn || to.BuiltIn {
			continue
		}
		pair := [2]string{min(w.sender, w.recipient), max(w.sender, w.recipient)}
		e := found[pair]
		if e == nil {
			e = &exchange{a: pair[0], b: pair[1]}
			found[pair] = e
		}
		if w.sender == e.a {
			e.byA += w.lately
		} else {
			e.byB += w.lately
		}
	}
	now := orchestrator.Stamp(s.now)
	for _, e := range found {
		if s.conf.HoldOf(e.a, e.b, now) != nil || s.conf.MayGoOn(e.a, e.b, now) {
			continue
		}
		if last := max(word[e.a], word[e.b]); last != "" && e.isRunaway() {
			if err := s.countSince(e, last); err != nil {
				return nil, err
			}
		}
		if !e.isRunaway() {
			continue
		}
		list = append(list, Finding{
			About: e.a + " and " + e.b, Level: Note, Count: e.byA + e.byB, From: []string{e.a, e.b},
			Says: fmt.Sprintf("%s and %s have exchanged %d messages within ten minutes", e.a, e.b, e.byA+e.byB),
			Because: fmt.Sprintf("%s sent %d and %s sent %d, and no person has written to either agent", e.a, e.byA,
				e.b, e.byB),
			Do: s.againstLoop(e),
		})
	}
	slices.SortFunc(list, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), slices.Compare(x.From, y.From))
	})
	return list[:min(len(list), mostOfEach)], nil
}

// againstLoop returns advice on how to stop a loop.
func (s *snapshot) againstLoop(e *exchange) string {
	hold := "hold back their messages with `mailroom hold %[1]s %[2]s`"
	for _, name := range []string{e.a, e.b} {
		if m := s.members[name]; len(m.backlog.Sessions) == 0 {
			hold = "stop them. Mailroom can hold back only messages between sessions of agent hosts, and " + name + " has no session"
		}
	}
	return fmt.Sprintf("To see the messages, run `mailroom list --as %[1]s`. If the agents are in a loop, "+hold+". If they are not in a loop, let them continue for an hour with `mailroom hold %[1]s %[2]s --off`", e.a, e.b)
}

// isRunaway reports whether two agents keep answering each other. If one of them sent nearly all messages, it is
// giving work to the other, and there is no loop.
func (e *exchange) isRunaway() bool {
	n := e.byA + e.byB
	return n > maxExchanged && min(e.byA, e.byB)*leastShare >= n
}

// countSince recounts what two agents wrote to each other after a time.
func (s *snapshot) countSince(e *exchange, after string) error {
	return s.c.Query(`SELECT coalesce(sum(CASE sender WHEN ?3 THEN 1 ELSE 0 END), 0), count(*) FROM agent_message
		WHERE seq >= ?1 AND created_at > ?2 AND (sender = ?3 AND recipient = ?4 OR sender = ?4 AND recipient = ?3)`,
		func(row store.Row) error {
			e.byA, e.byB = row.Int(0), row.Int(1)-row.Int(0)
			return nil
		}, s.from, after, e.a, e.b)
}
