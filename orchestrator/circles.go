package orchestrator

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"time"
)

// longestWait bounds how long a wait counts in the search for circles, whatever its timeout, so that a clock that was set
// forward and back, or what a killed process leaves behind where no pulse tells so, refuses nobody for ever.
const longestWait = 24 * time.Hour

// awaited returns the agents that a wait waits for: those that it names, and those that can answer the message it names.
// Errors: unknown_recipient; not_found for the message; permission_denied when the waiter did not send it.
func (r *Router) awaited(ctx context.Context, waiter string, o *WaitOptions) (names []string, err error) {
	if len(o.For) == 0 && o.ReplyTo == "" {
		return nil, nil
	}
	conf, err := r.configuration()
	if err != nil {
		return nil, err
	}
	for _, name := range o.For {
		if name, err = CheckName("agent", name); err != nil {
			return nil, err
		}
		if conf.agents[name] == nil {
			return nil, Errorf(UnknownRecipient, "%s cannot wait for %q: nobody is known by that name", waiter, name).
				WithHint("%s", didYouMean(name, conf.names))
		}
		names = append(names, name)
	}
	if o.ReplyTo == "" {
		return names, nil
	}
	ms, err := r.Find(ctx, o.ReplyTo)
	if err != nil {
		return nil, err
	}
	for i := range ms {
		if ms[i].Sender != waiter {
			return nil, Errorf(PermissionDenied, "%s was sent by %s; only its sender can wait for the answer", ms[i].ID, ms[i].Sender)
		}
		if !ms[i].isPost() && ms[i].Recipient != waiter {
			names = append(names, ms[i].Recipient)
		}
	}
	return names, nil
}

// declareWait notes whom a wait waits for until it ends, and refuses one that closes a circle: everybody who could end it
// waits in its turn, in the end for the waiter, and nobody would ever be woken. Noting and looking are one transaction, so
// that of two waits that close a circle together one is refused. The ids are those of the notes, for endWait. Error:
// conflict, with the circle named.
func (r *Router) declareWait(ctx context.Context, waiter string, names []string, timeout time.Duration) (ids []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	err = r.write(ctx, func(t *tx) error {
		ids = nil
		if _, err := t.Exec(`DELETE FROM waits WHERE until <= ?1 OR until > ?2`, t.clockText, stamp(t.clock.Add(longestWait))); err != nil {
			return err
		}
		if err := t.checkCircle(waiter, names); err != nil {
			return err
		}
		until := stamp(t.clock.Add(min(timeout, longestWait)))
		for _, name := range names {
			id, err := t.newID("wait-")
			if err != nil {
				return err
			}
			ids = append(ids, id)
			if _, err := t.Exec(`INSERT INTO waits (id, waiter, waits_for, instance, since, until) VALUES (?, ?, ?, ?, ?, ?)`,
				id, waiter, name, r.pulse.token(t.actor), t.now, until); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

// endWait removes the notes of a wait. It belongs in the transaction that takes what was waited for: whoever answers and
// then waits in its turn closes no circle.
func (t *tx) endWait(ids []string) error {
	for _, id := range ids {
		if _, err := t.Exec(`DELETE FROM waits WHERE id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

// withdrawWait ends a wait that took nothing. Notes that cannot be removed end by themselves.
func (r *Router) withdrawWait(ctx context.Context, o *WaitOptions, failure error) {
	if len(o.edges) == 0 {
		return
	}
	ctx, cancel := afterwards(ctx, failure, r.busy)
	defer cancel()
	if err := r.write(ctx, func(t *tx) error { return t.endWait(o.edges) }); err != nil {
		r.log.Warn("a wait that has ended still counts in the search for circles, until its timeout", "error", err)
	}
}

// checkCircle refuses a wait that closes a circle of processes that live.
func (t *tx) checkCircle(waiter string, names []string) error {
	circle, err := t.circle(waiter, names)
	if err != nil || circle == nil {
		return err
	}
	removed, err := t.endDeadWaits()
	if err == nil && removed > 0 {
		circle, err = t.circle(waiter, names)
	}
	if err != nil || circle == nil {
		return err
	}
	return closesCircle(circle)
}

// endDeadWaits removes the notes of processes that are known to be dead.
func (t *tx) endDeadWaits() (removed int64, err error) {
	instances, err := t.texts(`SELECT DISTINCT instance FROM waits`)
	for _, instance := range instances {
		if err == nil && t.r.pulse.gone(instance) {
			var n int64
			n, err = t.Exec(`DELETE FROM waits WHERE instance = ?`, instance)
			removed += n
		}
	}
	return removed, err
}

// hop is one agent of a circle.
type hop struct {
	agent string
	since string // when it began to wait
}

// circle returns the way from a waiter along the waits back to itself, nil if there is none or somebody on any way from it
// may act: one that waits for nobody in particular, or for whom there is something to read, which is about to wake up. Of
// those that an agent waits for any one can wake it. Both ends of the way are the waiter.
func (t *tx) circle(waiter string, names []string) (way []hop, err error) {
	cameFrom := map[string]string{}
	since := map[string]string{waiter: t.now}
	for at, open := waiter, []string(nil); ; at, open = open[0], open[1:] {
		if woken, err := t.hasMail(at); err != nil || woken {
			return nil, err
		}
		next, began, err := t.waitsOf(at)
		if err != nil {
			return nil, err
		}
		if at == waiter {
			next = append(next, names...)
		} else {
			since[at] = began
		}
		if len(next) == 0 {
			return nil, nil
		}
		for _, name := range next {
			if name == waiter && way == nil {
				way = []hop{{waiter, since[waiter]}}
				for on := at; on != waiter; on = cameFrom[on] {
					way = append(way, hop{on, since[on]})
				}
				way = append(way, hop{waiter, since[waiter]})
				slices.Reverse(way)
			}
			if _, seen := cameFrom[name]; !seen && name != waiter {
				cameFrom[name] = at
				open = append(open, name)
			}
		}
		if len(open) == 0 {
			return way, nil
		}
	}
}

// waitsOf returns for whom an agent waits, and since when.
func (t *tx) waitsOf(agent string) (names []string, since string, err error) {
	err = t.query(`SELECT waits_for, since FROM waits WHERE waiter = ?`, func(row []driver.Value) error {
		names = append(names, asText(row[0]))
		if began := asText(row[1]); since == "" || began < since {
			since = began
		}
		return nil
	}, agent)
	return names, since, err
}

// hasMail reports whether a waiter of that name would find something.
func (t *tx) hasMail(name string) (bool, error) {
	n, err := t.number(`
		SELECT EXISTS (SELECT 1 FROM agent_inbox WHERE recipient = ?2 AND read_at = '')
		    OR EXISTS (SELECT 1 FROM agent_message m WHERE `+takeable+`)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE (`+foreign+`) AND recipient = ?2)`, t.clockText, name)
	return n != 0, err
}

// closesCircle is the error of a wait that is refused.
func closesCircle(circle []hop) error {
	var names, others []string
	for i, h := range circle {
		names = append(names, h.agent)
		if i > 0 && i < len(circle)-1 {
			others = append(others, h.agent+" since "+h.since)
		}
	}
	e := Errorf(Conflict, "this wait would close a circle: %s", strings.Join(names, " waits for "))
	e.Details = map[string]any{"circle": names}
	if len(others) == 0 {
		return e.WithHint("Wait for somebody else, or without naming anybody")
	}
	return e.WithHint("Already waiting: %s. Send %s what it waits for first", strings.Join(others, ", "), names[len(names)-2])
}
