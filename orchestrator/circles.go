package orchestrator

import (
	"context"
	"slices"
	"strings"
	"time"
)

// longestWait bounds how long a wait counts in the search for circles, whatever its timeout, so that what a killed process
// leaves behind, or a clock that was set forward and back, refuses nobody for ever.
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

// declareWait notes whom a wait waits for until it ends, and refuses one that would close a circle: each of those agents
// would wait for another of them, and none would ever be woken. Noting and looking are one transaction, so that of two
// waits that close a circle together one is refused. The ids are those of the notes, for endWait. Error: conflict, with
// the circle named.
func (r *Router) declareWait(ctx context.Context, waiter string, names []string, timeout time.Duration) (ids []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	err = r.write(ctx, func(t *tx) error {
		ids = nil
		if _, err := t.Exec(`DELETE FROM waits WHERE until <= ?1 OR until > ?2`, t.clockText, stamp(t.clock.Add(longestWait))); err != nil {
			return err
		}
		if circle, err := t.circle(waiter, names); err != nil || circle != nil {
			if err == nil {
				err = closesCircle(circle)
			}
			return err
		}
		until := stamp(t.clock.Add(min(timeout, longestWait)))
		for _, name := range names {
			id, err := t.newID("wait-")
			if err != nil {
				return err
			}
			ids = append(ids, id)
			if _, err := t.Exec(`INSERT INTO waits (id, waiter, waits_for, instance, until) VALUES (?, ?, ?, ?, ?)`,
				id, waiter, name, t.actor, until); err != nil {
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
func (r *Router) withdrawWait(ctx context.Context, o *WaitOptions) {
	if len(o.edges) == 0 {
		return
	}
	if err := r.write(ctx, func(t *tx) error { return t.endWait(o.edges) }); err != nil {
		r.log.Warn("a wait that has ended still counts in the search for circles, until its timeout", "error", err)
	}
}

// circle returns the way from a waiter along the waits back to itself, nil if there is none. Both ends are the waiter.
// Somebody for whom there is something to read is about to wake up, and so waits for nobody.
func (t *tx) circle(waiter string, names []string) ([]string, error) {
	if woken, err := t.hasMail(waiter); err != nil || woken {
		return nil, err
	}
	cameFrom := map[string]string{}
	for at, open := waiter, []string(nil); ; at, open = open[0], open[1:] {
		next := names
		if at != waiter {
			woken, err := t.hasMail(at)
			if err != nil {
				return nil, err
			}
			if next = nil; !woken {
				if next, err = t.texts(`SELECT waits_for FROM waits WHERE waiter = ?`, at); err != nil {
					return nil, err
				}
			}
		}
		for _, name := range next {
			if name == waiter {
				way := []string{waiter}
				for ; at != waiter; at = cameFrom[at] {
					way = append(way, at)
				}
				way = append(way, waiter)
				slices.Reverse(way)
				return way, nil
			}
			if _, seen := cameFrom[name]; !seen {
				cameFrom[name] = at
				open = append(open, name)
			}
		}
		if len(open) == 0 {
			return nil, nil
		}
	}
}

// hasMail reports whether a waiter of that name would find something.
func (t *tx) hasMail(name string) (bool, error) {
	n, err := t.number(`
		SELECT EXISTS (SELECT 1 FROM agent_inbox WHERE recipient = ?2 AND read_at = '')
		    OR EXISTS (SELECT 1 FROM agent_message m WHERE `+takeable+`)
		    OR EXISTS (SELECT 1 FROM agent_message WHERE traced_status IS NOT status AND recipient = ?2)`, t.clockText, name)
	return n != 0, err
}

// closesCircle is the error of a wait that is refused.
func closesCircle(circle []string) error {
	e := Errorf(Conflict, "this wait would close a circle: %s", strings.Join(circle, " waits for "))
	e.Details = map[string]any{"circle": circle}
	if len(circle) < 3 {
		return e.WithHint("Wait for somebody else, or without naming anybody")
	}
	return e.WithHint("Send %s what it waits for first", circle[len(circle)-2])
}
