// Package exports sends the traces of a database to an OpenTelemetry receiver: one span for each row of command_trace
// that has ended, and one for each row of message_trace. It reads the tables from a cursor in the table exports, and
// moves the cursor once the receiver has answered. So every row is sent at least once, even if processes are killed
// at any point, and its ids never change.
package exports

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/tracing/otlp"
)

const (
	lookEvery   = 2 * time.Second        // maximum delay of a new row
	standEvery  = 10 * time.Second       // how often a daemon that does not send tries to take the lease
	afterNo     = 100 * time.Millisecond // pause after a request that was refused
	maxSpans    = 512                    // spans of one request
	maxBytes    = 1 << 20                // bytes of one request, unless a single span is larger
	leaseMargin = 20 * time.Second       // lease time in addition to the longest duration of two requests

	longestLease = leaseMargin + 2*otlp.LongestTimeout // longest lease of any process
)

// Start sends the traces to the receiver in o, in the background, until ctx ends or stop is called. stop returns when
// the sending has ended. Of several processes that do this with one database, one sends; another takes over when it
// ends or hangs. If texts is set, payloads, error texts and the output of transports are sent too. version is the
// version of this program.
func Start(ctx context.Context, l *ledger.Ledger, log *slog.Logger, o otlp.Options, texts bool,
	version string) (stop func()) {
	e := newExporter(l, log, o, version)
	e.texts = texts
	return orchestrator.Background(ctx, "otlp", log, e.run)
}

// exporter sends the traces for one process. One goroutine uses it.
type exporter struct {
	ledger  *ledger.Ledger
	log     *slog.Logger
	options otlp.Options
	texts   bool
	version string
	client  *otlp.Client // created with the first lease, once the database id is known

	lease    time.Duration // how long a lease lasts
	token    string        // token of this process's lease; "" is none
	until    time.Time     // end of the lease, by this machine's clock
	database string        // id of the database
	at       cursor

	limit     int // spans of the next request; reduced after a refused request
	backoff   *backoff.ExponentialBackOff
	notBefore time.Time // earliest time of the next request

	storing, sending, saying orchestrator.Trouble
}

func newExporter(l *ledger.Ledger, log *slog.Logger, o otlp.Options, version string) *exporter {
	return &exporter{
		ledger: l, log: log, options: o, version: version, limit: maxSpans, lease: leaseMargin + 2*o.Timeout,
		backoff: backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second),
			backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0)),
	}
}

// run sends until ctx ends.
func (e *exporter) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait, err := e.round(ctx)
		if err != nil {
			wait = standEvery
		}
		if e.storing.Changed(err) && ctx.Err() == nil {
			if err != nil {
				e.log.Warn("cannot read the traces or mark them as sent; nothing is lost", "error", err)
			} else {
				e.log.Info("reading traces works again")
			}
		}
		orchestrator.Pause(ctx, wait)
	}
	e.release(ctx)
	if e.client != nil {
		e.client.Close()
	}
}

// round makes at most one request, and returns how long to wait before the next round. Its errors come from the
// database.
func (e *exporter) round(ctx context.Context) (wait time.Duration, err error) {
	if e.token == "" || !time.Now().Before(e.until) {
		if taken, err := e.take(ctx); err != nil || !taken {
			return standEvery, err
		}
	}
	if left := time.Until(e.notBefore); left > 0 {
		return min(left, e.lease/4), e.renew(ctx)
	}
	p, err := e.read(ctx, e.limit)
	if err != nil {
		return 0, err
	}
	if p.size() == 0 {
		if p.after.equal(&e.at) {
			return lookEvery, e.renew(ctx)
		}
		return p.next(), e.store(ctx, p.after)
	}
	if err := e.renew(ctx); err != nil || e.token == "" {
		return 0, err
	}
	return e.send(ctx, p)
}

// send sends a page and records the result.
func (e *exporter) send(ctx context.Context, p *page) (wait time.Duration, err error) {
	within, cancel := context.WithDeadline(ctx, e.until) // afterwards another process may send
	rejected, err := e.client.Send(within, p.scopes(e.version)...)
	cancel()
	if ctx.Err() != nil {
		return 0, nil
	}
	if refused, ok := errors.AsType[*otlp.Refused](err); ok {
		return afterNo, e.refused(ctx, p, refused)
	}
	if later, ok := errors.AsType[*otlp.Later](err); ok {
		if e.sending.Changed(err) {
			e.log.Warn("cannot send traces; Mailroom keeps them and tries again", "otlp", e.options.Target(), "error", err)
		}
		pause := max(later.After, e.backoff.NextBackOff())
		e.notBefore = time.Now().Add(pause)
		return min(pause, e.lease/4), nil
	}
	if err != nil {
		return 0, err
	}
	if e.sending.Changed(nil) {
		e.log.Info("traces are being sent again", "otlp", e.options.Target())
	}
	rejected.Spans = min(rejected.Spans, int64(p.size()))
	var said error
	if rejected.Spans > 0 || rejected.Message != "" {
		said = errors.New(cmp.Or(rejected.Message, "nothing"))
	}
	if e.saying.Changed(said) && said != nil {
		e.log.Warn("the trace receiver returned a message", "otlp", e.options.Target(), "spans_not_taken",
			rejected.Spans, "says", rejected.Message)
	}
	e.backoff.Reset()
	e.limit = min(2*e.limit, maxSpans)
	p.after.refused += rejected.Spans
	p.after.sentAt = orchestrator.Stamp(e.ledger.Now())
	return p.next(), e.store(ctx, p.after)
}

// refused continues after a request that the receiver will never accept. It halves the number of spans until the
// rejected span is found, and drops that span.
func (e *exporter) refused(ctx context.Context, p *page, refusal *otlp.Refused) error {
	if p.size() > 1 {
		e.limit = p.size() / 2
		return nil
	}
	e.limit = min(2*e.limit, maxSpans)
	p.after.refused++
	if e.sending.Changed(refusal) {
		e.log.Error("the trace receiver rejected a span, and the span was dropped; any later spans that are rejected for the same reason are dropped without a log entry",
			"otlp", e.options.Target(), "span_id", p.first, "error", refusal)
	}
	return e.store(ctx, p.after)
}
