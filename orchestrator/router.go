package orchestrator

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"mailroom/tracing"
)

// Options say how to open a database.
type Options struct {
	// Path of the database file. It is made, with its folder, when it does not exist.
	Path string
	// Instance is recorded as lease owner and trace actor. "": HOST-PID.
	Instance string
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	// Transports by scheme ("inbox", "jsonl"). An agent whose scheme is missing here fails its deliveries.
	Transports map[string]Transport
	// User makes the transport to the user, whose scheme is "person": it stores what the user is asked and told in the
	// database itself. nil: there is none, unless it is one of Transports.
	User func(*Router) Transport
	// Log gets what an operator should know. nil: slog.Default().
	Log *slog.Logger
	// Trust is where it is kept which databases may act outside of themselves. nil: every database may, since a Go program
	// that opens one decides that for itself.
	Trust *Trust
	// Bell wakes daemons and waiters. nil: unix sockets beside the database.
	Bell Bell
	// BusyTimeout bounds the wait for another program's write lock. 0: 10 s.
	BusyTimeout time.Duration
}

// Router is an open database and the engine on it. It is safe for concurrent use; writes that are asked for at the same
// time share one transaction and one fsync. Several processes may have the same file open.
type Router struct {
	store      Store
	path       string
	instance   string
	now        func() time.Time
	transports map[string]Transport
	user       func(*Router) Transport // see Options.User
	log        *slog.Logger
	bell       Bell
	trust      *Trust
	busy       time.Duration
	config     configCache
	parts      []*Part                // what the records add to the engine
	untidyOnce sync.Once              // makes untidyText
	untidyText string                 // see untidyQuery
	entropy    *ulid.MonotonicEntropy // of new ids; for whoever holds the write lock
}

// New prepares a Router with these parts, of which UseStore is the next thing to be called.
func New(o Options, parts []*Part) *Router {
	r := &Router{
		instance: o.Instance, now: o.Now, transports: map[string]Transport{}, log: o.Log, trust: o.Trust, parts: parts, busy: o.BusyTimeout,
		entropy: newEntropy(),
	}
	maps.Copy(r.transports, o.Transports)
	if o.User != nil {
		r.user, r.transports["person"] = o.User, o.User(r)
	}
	if r.instance == "" {
		host, _ := os.Hostname()
		r.instance = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	if r.busy == 0 {
		r.busy = 10 * time.Second
	}
	r.config.parts, r.config.judge = parts, r.judge
	return r
}

// UseStore gives a Router its database, whose write transactions call Begin and End.
func (r *Router) UseStore(s Store) { r.store, r.path, r.bell = s, s.Path(), s.Bell() }

// Path returns the absolute path of the database file.
func (r *Router) Path() string { return r.path }

// Instance returns the name under which this process appears as lease owner and trace actor.
func (r *Router) Instance() string { return r.instance }

// Now reads the router's clock.
func (r *Router) Now() time.Time { return r.now() }

// Close closes the database. Nothing may be called afterwards.
func (r *Router) Close() error { return r.store.Close() }

// Create makes the database if it is not there yet, and reports whether it did. It makes none where there was one before.
func (r *Router) Create(ctx context.Context) (created bool, err error) { return r.store.Create() }

// NoneYet reports whether there is no database at the path, and nothing shows that there was one.
func (r *Router) NoneYet() bool { return r.store.NoneYet() }

// EndSpan writes the end of a command's span. A failure to write it does not fail the command: the changes that matter
// carried the span with them in their own transactions. A scheduled run that changed nothing leaves no row; the span of
// a command that only reads, or that could not have the database, is written if that is possible at once.
func (r *Router) EndSpan(ctx context.Context, span *tracing.Span, failure error, onlyReads func() bool) {
	if failure == nil && (span.Saved() || span.Scheduled) {
		return
	}
	readOnly := onlyReads()
	if (readOnly || failure != nil) && !r.store.Exists() {
		return // a database is not made for the sake of the span of a command that read or failed
	}
	text := ""
	if failure != nil {
		text = failure.Error()
		span.Set(tracing.AttrErrorType, string(CodeOf(failure)))
	}
	wait := r.busy
	if readOnly {
		wait = 250 * time.Millisecond
	}
	ctx, cancel := afterwards(ctx, failure, wait)
	defer cancel()
	err := r.write(ctx, func(t *tx) error { return span.Save(t, t.clock, r.instance, text) })
	if err != nil {
		r.log.Debug("a command's span could not be written", "command", span.Name, "error", err)
	}
}

// afterwards returns the context of what is written about a request that has ended: it may wait for so long, but not a
// second time for a database that the request has waited for in vain. One that was called off has not waited.
func afterwards(ctx context.Context, failure error, wait time.Duration) (context.Context, context.CancelFunc) {
	if CodeOf(failure) == Busy && ctx.Err() == nil {
		wait = time.Millisecond // enough for one try
	}
	return context.WithTimeout(context.WithoutCancel(ctx), wait)
}
