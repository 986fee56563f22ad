package delivery

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// Delivery counts what a delivery run did.
type Delivery struct {
	Delivered int
	Failed    int // attempts that failed, not messages given up
	Expired   int
	PutOff    int                 // messages whose recipients asked to be tried later
	Untrusted string              // why nothing leaves the database; "" where it does
	Disabled  []string            // agents whose transport is disabled now, since their address is gone for good
	Summary   []RecipientDelivery // by recipient, in order of name
	Errors    []FailedAttempt
}

// RecipientDelivery is one recipient's part of a run.
type RecipientDelivery struct {
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

// tally collects what the workers of one run did.
type tally struct {
	mu        sync.Mutex
	delivered map[string]int
	failed    map[string]int
	errors    []FailedAttempt
	putOff    int
	disabled  []string
	untrusted string
	fault     error // of the database, not of a recipient

	workers sync.WaitGroup
	started atomic.Bool // at least one worker
}

func newTally() *tally { return &tally{delivered: map[string]int{}, failed: map[string]int{}} }

func (y *tally) deliver(recipient string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if n > 0 {
		y.delivered[recipient] += n
	}
}

func (y *tally) fail(attempts ...FailedAttempt) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, a := range attempts {
		y.failed[a.Recipient]++
		if len(y.errors) < maxErrors {
			y.errors = append(y.errors, a)
		}
	}
}

// settled counts what else became of a claim's messages.
func (y *tally) settled(s *settlement) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.putOff += s.putOff
	if s.disabled != "" {
		y.disabled = append(y.disabled, s.disabled)
	}
}

func (y *tally) databaseFault(err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.fault == nil {
		y.fault = err
	}
}

func (y *tally) delivery() Delivery {
	y.mu.Lock()
	defer y.mu.Unlock()
	names := map[string]bool{}
	for name := range y.delivered {
		names[name] = true
	}
	for name := range y.failed {
		names[name] = true
	}
	d := Delivery{Summary: []RecipientDelivery{}, Errors: slices.Clone(y.errors), PutOff: y.putOff,
		Disabled: slices.Sorted(slices.Values(y.disabled)), Untrusted: y.untrusted}
	for name := range names {
		d.Summary = append(d.Summary, RecipientDelivery{name, y.delivered[name], y.failed[name]})
		d.Delivered += y.delivered[name]
		d.Failed += y.failed[name]
	}
	slices.SortFunc(d.Summary, func(a, b RecipientDelivery) int { return strings.Compare(a.Recipient, b.Recipient) })
	return d
}

// DeliverAll delivers everything that is due: first to inboxes, exactly once, then through the other transports, each recipient
// by itself, so that a slow one does not delay the others. It may run in many processes at once. An attempt that fails is part
// of the result, and no error. Errors: unknown_recipient; those of the database.
func (e *Engine) DeliverAll(ctx context.Context, o Options) (Delivery, error) {
	ctx = ledger.WithIdentity(ctx, "") // what is done from here on, the engine does
	o.Recipient = orchestrator.FoldName(o.Recipient)
	if err := checkRecipient(ctx, e.Ledger, o.Recipient); err != nil {
		return Delivery{}, err
	}
	if err := e.endDeadLeases(ctx); err != nil {
		return Delivery{}, err
	}
	y := newTally()
	work, untrusted, err := AnythingDue(ctx, e.Ledger)
	if y.untrusted = untrusted; err != nil || !work {
		return y.delivery(), err
	}
	if err := TidyAll(ctx, e.Ledger); err != nil {
		return Delivery{}, err
	}
	if o.Recipient == "" {
		doErrands(ctx, e.Ledger)
	}
	start := func(recipient string) { e.startWorker(ctx, recipient, o, y) }
	if err := deliverInboxes(ctx, e.Ledger, o, y, start); err != nil {
		return y.delivery(), err
	}
	if !o.Background {
		y.workers.Wait()
		// What failed on the way may have sent reports to inboxes.
		if y.started.Load() && o.Recipient == "" {
			if err := deliverInboxes(ctx, e.Ledger, o, y, func(string) {}); err != nil {
				return y.delivery(), err
			}
		}
	}
	y.mu.Lock()
	err = y.fault
	y.mu.Unlock()
	return y.delivery(), err
}

// checkRecipient refuses a name that nobody has and for which nothing waits: a typo.
func checkRecipient(ctx context.Context, l *ledger.Ledger, name string) error {
	if name == "" {
		return nil
	}
	_, err := Poll(ctx, l, name, 1)
	return err
}

// AnythingDue reports whether a delivery run would have anything to do. It only reads, and takes microseconds, so that it can
// be asked every second. untrusted is why the database does nothing outside of itself, "" if it does.
func AnythingDue(ctx context.Context, l *ledger.Ledger) (found bool, untrusted string, err error) {
	now := l.Now()
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		untrusted = conf.Untrusted
		if found, err = untidy(l, c, conf, now); err != nil || found {
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
		if due, err = p.Errand.Due(c); err != nil || due {
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
// recipient to recipient along the index of live rows. What has to wait for something else, a delivery under way or another
// address, is not to be taken: nobody makes a run for it.
func eachDue(ctx context.Context, c *store.Conn, conf *ledger.Config, now string, f func(recipient string) bool) error {
	something := `SELECT EXISTS (SELECT 1 FROM agent_message m WHERE ` + ledger.Claimable + `)`
	if conf.Untrusted != "" {
		something = `SELECT EXISTS (SELECT 1 FROM agent_message m WHERE ` + ledger.Claimable + ` AND delivery_marks = '')`
	}
	for from := ""; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		next, found, err := nextRecipient(c, from)
		if err != nil || !found {
			return err
		}
		if agent := conf.Agents[next]; agent == nil || !Waits(agent) {
			n, err := c.Number(something, now, next)
			if err != nil {
				return err
			}
			if n != 0 && !f(next) {
				return nil
			}
		}
		from = next + "\x00" // the least that is greater
	}
}

// nextRecipient returns the least name from one on that has live rows; by hand, somebody may have written an empty one. A BLOB,
// which is greater than every name and would be the next for ever, is none: its row is adopted first.
func nextRecipient(c *store.Conn, from string) (string, bool, error) {
	return c.Text(`SELECT recipient FROM agent_message WHERE `+ledger.Live+` AND recipient >= ? AND recipient < x'' ORDER BY recipient LIMIT 1`, from)
}

// dueRecipients lists who has something that may be taken now.
func dueRecipients(ctx context.Context, c *store.Conn, conf *ledger.Config, now string) (names []string, err error) {
	err = eachDue(ctx, c, conf, now, func(recipient string) bool {
		names = append(names, recipient)
		return true
	})
	return names, err
}

// TidyAll calls Tidy, in one transaction after the other, until there is nothing more to do.
func TidyAll(ctx context.Context, l *ledger.Ledger) error {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.Write(ctx, store.In(store.Tidying), func(t *ledger.Tx) (err error) {
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

// startWorker begins to deliver to one recipient through a transport outside the database, unless enough workers of this
// process are at it already. A worker that has claimed something starts the next, if more may be claimed.
func (e *Engine) startWorker(ctx context.Context, recipient string, o Options, y *tally) {
	allowed, seats := e.workersOf(ctx, recipient)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.delivering[recipient] >= allowed {
		return
	}
	e.delivering[recipient]++
	y.started.Store(true)
	y.workers.Add(1)
	e.workers.Add(1)
	orchestrator.GoSafe("delivery to "+recipient, e.Log, func() {
		defer y.workers.Done()
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
		if err := e.deliverTo(ctx, recipient, o, y); err != nil && !errors.Is(err, context.Canceled) {
			e.Log.Error("delivery stopped; the next run goes on", "recipient", recipient, "error", err)
			y.databaseFault(err)
		}
	})
}

// callHelp starts another worker for a recipient whose transport makes several attempts at a time, if there is something
// for it.
func (e *Engine) callHelp(ctx context.Context, recipient string, o Options, y *tally) error {
	allowed, _ := e.workersOf(ctx, recipient)
	e.mu.Lock()
	enough := e.delivering[recipient] >= allowed
	e.mu.Unlock()
	if enough {
		return nil
	}
	more, err := claimable(ctx, e.Ledger, recipient)
	if err == nil && more {
		e.startWorker(ctx, recipient, o, y)
	}
	return err
}
