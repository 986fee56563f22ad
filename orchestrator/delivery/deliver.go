package delivery

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Options says what a delivery run does. The zero value delivers everything that is due.
type Options struct {
	Recipient string        // only this one; "" is everybody
	Timeout   time.Duration // longest attempt, 1 s to 1 h; 0: the agent's, or the setting delivery.timeout
	ClaimSize int           // messages of one claim, never a cap; 0: the setting
	// Background returns once the inboxes are served; other deliveries go on by themselves, and Close waits for them.
	Background bool

	slot orchestrator.Slot // that the worker has, of a transport which bounds its attempts
}

// Delivery says what a delivery run did.
type Delivery struct {
	Delivered int
	Failed    int             // attempts that failed, not messages given up
	PutOff    int             // messages whose recipients asked to be tried later
	Untrusted string          // why nothing leaves the database; "" where it does
	Disabled  []string        // agents whose transport is disabled now, since their address is gone for good
	Summary   []Count         // by recipient, in order of name
	Errors    []FailedAttempt // at most a thousand
}

// Count is what a delivery run did for one recipient.
type Count struct {
	Recipient string `json:"recipient"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
}

// FailedAttempt is one attempt that failed.
type FailedAttempt struct {
	Code       orchestrator.Code `json:"error"` // delivery_failed or delivery_timeout
	Message    string            `json:"message"`
	MessageID  string            `json:"message_id"`
	Recipient  string            `json:"recipient"`
	RetryCount int               `json:"retry_count"`
	RetryAt    string            `json:"will_retry_at,omitempty"` // "" when it was the last
}

// maxErrors bounds the failed attempts that a run reports one by one.
const maxErrors = 1000

// run collects what one call of DeliverAll does.
type run struct {
	mu     sync.Mutex
	did    Delivery // without its sums
	counts map[string]Count
	fault  error // the first of the database

	workers sync.WaitGroup
	started atomic.Bool // at least one worker
}

// add counts what became of messages to one recipient.
func (r *run) add(recipient string, s *settlement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.delivered+len(s.failed) > 0 {
		c := r.counts[recipient]
		r.counts[recipient] = Count{recipient, c.Delivered + s.delivered, c.Failed + len(s.failed)}
	}
	r.did.PutOff += s.putOff
	r.did.Errors = append(r.did.Errors, s.failed[:min(len(s.failed), maxErrors-len(r.did.Errors))]...)
	if s.disabled != "" {
		r.did.Disabled = append(r.did.Disabled, s.disabled)
	}
}

// fail notes a failure of the database.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil {
		r.fault = err
	}
}

// result returns what was done until now, and the error of the run: err, or else the first failure of a worker.
func (r *run) result(err error) (Delivery, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.did
	d.Summary, d.Errors, d.Disabled = []Count{}, slices.Clone(d.Errors), slices.Sorted(slices.Values(d.Disabled))
	for _, name := range slices.Sorted(maps.Keys(r.counts)) {
		c := r.counts[name]
		d.Summary, d.Delivered, d.Failed = append(d.Summary, c), d.Delivered+c.Delivered, d.Failed+c.Failed
	}
	if err == nil {
		err = r.fault
	}
	return d, err
}

// DeliverAll delivers everything that is due: first to inboxes, exactly once, then through the other transports, each
// recipient by itself, so that a slow one does not delay the others. It may run in many processes at once. An attempt
// that fails is part of the result, and no error. Errors: unknown_recipient; those of the database.
func (e *Engine) DeliverAll(ctx context.Context, o Options) (Delivery, error) {
	ctx = ledger.WithIdentity(ctx, "") // what is done from here on, the engine does
	o.Recipient = orchestrator.FoldName(o.Recipient)
	if o.Recipient != "" { // a name that nobody has, and for which nothing waits, is a typo
		if _, err := Poll(ctx, e.Ledger, o.Recipient, 1); err != nil {
			return Delivery{}, err
		}
	}
	r := &run{counts: map[string]Count{}}
	began := e.Now().Round(0) // without the monotonic clock, so that calm sees it set back
	version, known := e.Version()
	known = known && o.Recipient == ""
	if known {
		if untrusted, calm := e.calm.holds(version, began); calm {
			r.did.Untrusted = untrusted
			return r.result(nil)
		}
	}
	if err := e.endDeadLeases(ctx); err != nil {
		return Delivery{}, err
	}
	work, untrusted, err := AnythingDue(ctx, e.Ledger)
	if r.did.Untrusted = untrusted; err == nil && !work && known {
		err = e.calm.begin(ctx, e.Ledger, version, began, untrusted)
	}
	if err != nil || !work {
		return r.result(err)
	}
	if err := TidyAll(ctx, e.Ledger); err != nil {
		return Delivery{}, err
	}
	if o.Recipient == "" {
		doErrands(ctx, e.Ledger)
	}
	start := func(recipient string) { e.startWorker(ctx, recipient, o, r) }
	if err := deliverInboxes(ctx, e.Ledger, o, r, start); err != nil || o.Background {
		return r.result(err)
	}
	r.workers.Wait()
	if r.started.Load() && o.Recipient == "" { // what failed on the way may have sent reports to inboxes
		err = deliverInboxes(ctx, e.Ledger, o, r, func(string) {})
	}
	return r.result(err)
}

// AnythingDue reports whether a delivery run would have anything to do. It only reads, and takes microseconds, so that
// it can be asked every second. untrusted is why the database does nothing outside of itself, "" if it does.
func AnythingDue(ctx context.Context, l *ledger.Ledger) (found bool, untrusted string, err error) {
	now := l.Now()
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		untrusted = conf.Untrusted
		if found, err = Untidy(l, c, conf, now); err != nil || found {
			return err
		}
		if found, err = errandDue(l, c); err != nil || found {
			return err
		}
		return eachDue(ctx, c, conf, orchestrator.Stamp(now), func(string) bool {
			found = true
			return false
		})
	})
	return found, untrusted, err
}

// errandDue reports whether any part has an errand to do.
func errandDue(l *ledger.Ledger, c *store.Conn) (due bool, err error) {
	for _, p := range l.Parts {
		if p.Errand == nil {
			continue
		}
		if due, err = p.Errand.Due(c, l.Now()); err != nil || due {
			return due, err
		}
	}
	return false, nil
}

// doErrands does the errands of all parts.
func doErrands(ctx context.Context, l *ledger.Ledger) {
	for _, p := range l.Parts {
		if p.Errand != nil {
			p.Errand.Do(ctx, l)
		}
	}
}

// eachDue calls f with everybody who has something that may be taken now, until it returns false. It walks from
// recipient to recipient along the index of live rows. What has to wait for something else, a delivery under way or
// another address, is not to be taken: nobody makes a run for it.
func eachDue(ctx context.Context, c *store.Conn, conf *ledger.Config, now string, f func(recipient string) bool) error {
	something := `SELECT EXISTS (SELECT 1 FROM agent_message m WHERE ` + mayBeTaken(conf) + `)`
	for last, comes := "", ">="; ; comes = ">" { // by hand, somebody may have written an empty name
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		next, found, err := nextRecipient(c, comes, last)
		if err != nil || !found {
			return err
		}
		if agent := conf.Agents[next]; agent == nil || !agent.Waits() {
			n, err := c.Number(something, now, next)
			if err != nil {
				return err
			}
			if n != 0 && !f(next) {
				return nil
			}
		}
		last = next
	}
}

// mayBeTaken is the condition for rows of agent_message as m, to ?2, that a run takes at the time ?1. In a database
// that is not trusted no transport is asked what became of a message that carries its mark.
func mayBeTaken(conf *ledger.Config) string {
	if conf.Untrusted != "" {
		return ledger.Claimable + ` AND delivery_marks = ''`
	}
	return ledger.Claimable
}

// maxLooked bounds the rows of one recipient that FirstDue looks at.
const maxLooked = 10_000

// FirstDue reports whether a run would take a message to a recipient, of the first that wait for it.
func FirstDue(c *store.Conn, conf *ledger.Config, now time.Time, recipient string) (bool, error) {
	if agent := conf.Agents[recipient]; agent != nil && agent.Waits() {
		return false, nil
	}
	n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM (
		    SELECT seq, sender, recipient, status, traced_status, priority, next_attempt_at, lease_token, held,
		    	delivery_marks FROM agent_message
		    WHERE `+ledger.Live+` AND recipient = ?2 ORDER BY priority DESC, seq LIMIT +?3) AS m
		WHERE `+mayBeTaken(conf)+`)`, orchestrator.Stamp(now), recipient, maxLooked)
	return n != 0, err
}

// nextRecipient returns the least name with live rows that comes behind another, ">", or is that, ">=". A BLOB, which
// is greater than every name and would be the next for ever, is none: its row is adopted first.
func nextRecipient(c *store.Conn, comes, last string) (string, bool, error) {
	return c.Text(`SELECT recipient FROM agent_message WHERE `+ledger.Live+` AND recipient `+comes+
		` ? AND recipient < x'' ORDER BY recipient LIMIT 1`, last)
}

// TidyAll calls Tidy, in one transaction after the other, until there is nothing more to do.
func TidyAll(ctx context.Context, l *ledger.Ledger) error {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.Write(ctx, store.Shared, func(t *ledger.Tx) (err error) {
			t.Quiet = true
			more, err = Tidy(t)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startWorker begins to deliver to one recipient through a transport outside the database, unless enough workers of
// this process are at it already. A worker that has claimed something starts the next, if more may be claimed.
func (e *Engine) startWorker(ctx context.Context, recipient string, o Options, r *run) {
	var agent *ledger.Agent
	if conf, err := e.Configuration(ctx); err == nil {
		agent = conf.Agents[recipient]
	}
	allowed, seats := e.workersOf(agent)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.delivering[recipient] >= allowed {
		return
	}
	e.delivering[recipient]++
	r.started.Store(true)
	r.workers.Add(1)
	e.workers.Add(1)
	orchestrator.GoSafe("delivery to "+recipient, e.Log, func() {
		defer r.workers.Done()
		defer e.workers.Done()
		if seats != nil {
			seats <- struct{}{}
			defer func() { <-seats }()
		}
		defer func() {
			e.mu.Lock()
			if e.delivering[recipient]--; e.delivering[recipient] == 0 {
				delete(e.delivering, recipient)
			}
			e.mu.Unlock()
		}()
		if err := e.deliverTo(ctx, recipient, o, r); err != nil && !errors.Is(err, context.Canceled) {
			e.Log.Error("delivery stopped; the next run continues", "recipient", recipient, "error", err)
			r.fail(err)
		}
	})
}

// callHelp starts another worker for an agent whose transport makes several attempts at a time, if there is something
// for it.
func (e *Engine) callHelp(ctx context.Context, agent *ledger.Agent, o Options, r *run) error {
	allowed, _ := e.workersOf(agent)
	e.mu.Lock()
	enough := e.delivering[agent.Name] >= allowed
	e.mu.Unlock()
	if enough {
		return nil
	}
	more, err := claimable(ctx, e.Ledger, agent.Name)
	if err == nil && more {
		e.startWorker(ctx, agent.Name, o, r)
	}
	return err
}
