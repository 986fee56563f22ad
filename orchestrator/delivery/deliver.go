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

// Options configures a delivery run. The zero value delivers all due messages.
type Options struct {
	Recipient string        // only this recipient; "" means all
	Timeout   time.Duration // limit of one attempt, 1 s to 1 h; 0: the agent's, or the setting delivery.timeout
	ClaimSize int           // messages per claim, not a limit of the run; 0: the setting
	// Background makes the run return once the inboxes are served. Other deliveries continue, and Close waits for
	// them.
	Background bool

	slot orchestrator.Slot // the worker's slot of a transport that limits concurrent attempts
}

// Delivery is the result of a delivery run.
type Delivery struct {
	Delivered int
	Failed    int             // failed attempts, not dead letters
	PutOff    int             // messages that their recipients postponed
	Untrusted string          // why nothing leaves the database; "" if it is trusted
	Disabled  []string        // agents whose transport the run disabled because their address is gone for good
	Summary   []Count         // by recipient, sorted by name
	Errors    []FailedAttempt // at most a thousand
}

// Count is the result of a delivery run for one recipient.
type Count struct {
	Recipient string `json:"recipient"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
}

// FailedAttempt is a failed delivery attempt.
type FailedAttempt struct {
	Code       orchestrator.Code `json:"error"` // delivery_failed or delivery_timeout
	Message    string            `json:"message"`
	MessageID  string            `json:"message_id"`
	Recipient  string            `json:"recipient"`
	RetryCount int               `json:"retry_count"`
	RetryAt    string            `json:"will_retry_at,omitempty"` // "" if it was the last attempt
}

// maxErrors is the maximum number of failed attempts that a run reports individually.
const maxErrors = 1000

// run collects the results of one call of DeliverAll.
type run struct {
	mu     sync.Mutex
	did    Delivery // without the totals
	counts map[string]Count
	fault  error // the first error of the database

	workers sync.WaitGroup
	started atomic.Bool // at least one worker was started
}

// add adds the results for one recipient.
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

// fail records an error of the database.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil {
		r.fault = err
	}
}

// result returns the results so far and the error of the run: err, or else the first failure of a worker.
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

// DeliverAll delivers all due messages: first to inboxes, exactly once, then through the other transports. It serves
// each recipient separately, so that a slow one does not delay the others. Many processes may call it at once. A
// failed attempt is part of the result and not an error. Errors: unknown_recipient; those of the database.
func (e *Engine) DeliverAll(ctx context.Context, o Options) (Delivery, error) {
	ctx = ledger.WithIdentity(ctx, "") // the engine itself acts from here on
	o.Recipient = orchestrator.FoldName(o.Recipient)
	if o.Recipient != "" { // an unknown name for which nothing waits is a typing error
		if _, err := Poll(ctx, e.Ledger, o.Recipient, 1); err != nil {
			return Delivery{}, err
		}
	}
	r := &run{counts: map[string]Count{}}
	began := e.Now().Round(0) // without the monotonic clock, so that calm notices a clock that is set back
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
	if r.started.Load() && o.Recipient == "" { // failures during the run may have sent reports to inboxes
		err = deliverInboxes(ctx, e.Ledger, o, r, func(string) {})
	}
	return r.result(err)
}

// AnythingDue reports whether a delivery run would have anything to do. It only reads and takes microseconds, so that
// it can be called every second. untrusted is the reason why the database does not act outside of itself, or "".
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

// errandDue reports whether any part has an errand that is due.
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

// doErrands performs the errands of all parts.
func doErrands(ctx context.Context, l *ledger.Ledger) {
	for _, p := range l.Parts {
		if p.Errand != nil {
			p.Errand.Do(ctx, l)
		}
	}
}

// eachDue calls f with each recipient that has a message to take now, until f returns false. It walks from recipient
// to recipient along the index of live rows. It skips messages that must wait for something else, such as a delivery
// in progress or another address, because no run is made for them.
func eachDue(ctx context.Context, c *store.Conn, conf *ledger.Config, now string, f func(recipient string) bool) error {
	something := `SELECT EXISTS (SELECT 1 FROM agent_message m WHERE ` + mayBeTaken(conf) + `)`
	for last, comes := "", ">="; ; comes = ">" { // somebody may have written an empty name by hand
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

// mayBeTaken returns the condition for rows of agent_message as m, to recipient ?2, that a run takes at the time ?1.
// In a database that is not trusted, it excludes messages with a mark of a transport, because no transport is asked
// about them.
func mayBeTaken(conf *ledger.Config) string {
	if conf.Untrusted != "" {
		return ledger.Claimable + ` AND delivery_marks = ''`
	}
	return ledger.Claimable
}

// maxLooked is the maximum number of rows of one recipient that FirstDue examines.
const maxLooked = 10_000

// FirstDue reports whether a run would take one of the first messages that wait for a recipient.
func FirstDue(c *store.Conn, conf *ledger.Config, now time.Time, recipient string) (bool, error) {
	if agent := conf.Agents[recipient]; agent != nil && agent.Waits() {
		return false, nil
	}
	n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM (
		    SELECT seq, sender, recipient, status, traced_status, priority, next_attempt_at, expires_at, lease_token,
		    	held, delivery_marks FROM agent_message
		    WHERE `+ledger.Live+` AND recipient = ?2 ORDER BY priority DESC, seq LIMIT +?3) AS m
		WHERE `+mayBeTaken(conf)+`)`, orchestrator.Stamp(now), recipient, maxLooked)
	return n != 0, err
}

// nextRecipient returns the smallest name with live rows that is greater than last, or with comes ">=" not smaller.
// It skips BLOBs, which are greater than every text and would be found again and again. Their rows are adopted first.
func nextRecipient(c *store.Conn, comes, last string) (string, bool, error) {
	return c.Text(`SELECT recipient FROM agent_message WHERE `+ledger.Live+` AND recipient `+comes+
		` ? AND recipient < x'' ORDER BY recipient LIMIT 1`, last)
}

// TidyAll calls Tidy in successive transactions until nothing is left to do.
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

// startWorker starts a worker that delivers to one recipient through a transport outside the database, unless enough
// workers of this process already do. A worker that has claimed messages starts the next one if more may be claimed.
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

// callHelp starts another worker for an agent whose transport allows several attempts at a time, if there is
// something for the worker to do.
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
