// Package ledger is an open database, and what every change of its rows goes through: transactions with their clock,
// ids and the identity of the caller; the configuration; the rows of agent_message, their changes of status, and the
// trace of each. It knows none of the records above it (threads, questions, and so on): these add themselves as Parts.
package ledger

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Options say how to open a database.
type Options struct {
	// Path of the database file, which is made, with its folder, when it does not exist; or the address of a PostgreSQL
	// server.
	Path string
	// State is a folder of the user's in which files of this machine stand that belong to a database on a server. "":
	// there is none.
	State string
	// Instance is recorded as lease owner and trace actor. "": HOST-PID.
	Instance string
	// Host is the name of this machine, for agents whose files and commands are on one. "": its own.
	Host string
	// Now is the clock. nil: the database's, see store.Central.
	Now func() time.Time
	// Transports by scheme ("inbox", "jsonl"). An agent whose scheme is missing here fails its deliveries.
	Transports map[string]orchestrator.Transport
	// User makes the transport to the user, whose scheme is "person": it stores what the user is asked and told in the
	// database itself. nil: there is none, unless it is one of Transports.
	User func(*Ledger) orchestrator.Transport
	// Log gets what an operator should know. nil: slog.Default().
	Log *slog.Logger
	// Trust is where it is kept which databases may act outside of themselves. nil: every database may, since a Go
	// program that opens one decides that for itself.
	Trust *Trust
	// Bell wakes daemons and waiters. nil: unix sockets beside the database.
	Bell orchestrator.Bell
	// BusyTimeout bounds the wait for another program's write lock. 0: 10 s.
	BusyTimeout time.Duration
	// Pulse is how often a process shows the server of the database that it lives. 0: 10 s. A test sets less.
	Pulse time.Duration
	// CountEvery is after how many messages the new ones are counted, in message_count. 0: 1000. A test sets less.
	CountEvery int64
}

// Ledger is an open database, its configuration, and what changes its rows. It is safe for concurrent use; writes that
// are asked for at the same time share one transaction and one fsync. Several processes may have the same file open.
type Ledger struct {
	Store      store.Store
	instance   string
	host       string
	central    bool // many hosts may use the database
	now        func() time.Time
	ownClock   bool // see Options.Now
	Transports map[string]orchestrator.Transport
	User       func(*Ledger) orchestrator.Transport // see Options.User
	Log        *slog.Logger
	Trust      *Trust
	Busy       time.Duration
	Config     ConfigCache
	Parts      []*Part // what the records add to the engine
	// this Ledger moves the database, and so writes where others may not, see takesWrites
	Moves      bool
	countEvery int64                  // see Options.CountEvery
	entropy    *ulid.MonotonicEntropy // of new ids; for whoever holds the write lock
	queries    atomic.Int32           // audit queries that have a place, see EnterQuery
}

// New makes a Ledger for an engine with these parts. It has no database yet: call UseStore next.
func New(o Options, parts []*Part) *Ledger {
	l := &Ledger{
		instance: o.Instance, host: o.Host, now: o.Now, Transports: map[string]orchestrator.Transport{}, Log: o.Log,
		Trust: o.Trust, Parts: parts, Busy: o.BusyTimeout,
		countEvery: cmp.Or(o.CountEvery, 1000), entropy: newEntropy(),
	}
	maps.Copy(l.Transports, o.Transports)
	if o.User != nil {
		l.User, l.Transports["person"] = o.User, o.User(l)
	}
	if l.host == "" {
		l.host, _ = os.Hostname()
	}
	if l.instance == "" {
		l.instance = fmt.Sprintf("%s-%d", l.host, os.Getpid())
	}
	if l.ownClock = l.now != nil; !l.ownClock {
		l.now = time.Now
	}
	if l.Log == nil {
		l.Log = slog.Default()
	}
	if l.Busy == 0 {
		l.Busy = 10 * time.Second
	}
	l.Config.parts, l.Config.judge = parts, func(conf *Config) { judge(l, conf) }
	return l
}

// UseStore sets the database, whose write transactions must call Begin and End. Unless the options have a clock, its
// clock is used.
func (l *Ledger) UseStore(s store.Store) {
	l.Store = s
	central, ok := s.(store.Central)
	if l.central = ok; ok && !l.ownClock {
		l.now = central.Now
	}
}

// Path returns the absolute path of the database file.
func (l *Ledger) Path() string { return l.Store.Path() }

// FilePrefix is what the paths of this machine's files that belong to the database begin with, see store.Store.
func (l *Ledger) FilePrefix() string { return l.Store.FilePrefix() }

// Instance returns the name under which this process appears as lease owner and trace actor.
func (l *Ledger) Instance() string { return l.instance }

// Host returns the name of this machine, see Options.Host.
func (l *Ledger) Host() string { return l.host }

// IsCentral reports whether many hosts may use the database.
func (l *Ledger) IsCentral() bool { return l.central }

// Now returns the time by the engine's clock, see Options.Now.
func (l *Ledger) Now() time.Time { return l.now() }

// Close closes the database. Nothing may be called afterwards.
func (l *Ledger) Close() error { return l.Store.Close() }

// Create makes the database if it is a file that is not there yet. It makes none at a path from which a database has
// disappeared, and none on a server, where an address with a typing error may lead as well: only Store.Create does.
// Error there: unavailable, which says so.
func (l *Ledger) Create(ctx context.Context) error {
	if l.central {
		return l.Look(ctx, func(*store.Conn) error { return nil })
	}
	_, err := l.Store.Create()
	return err
}

// NoneYet reports whether there is no database at the path, and nothing shows that there was one.
func (l *Ledger) NoneYet() bool { return l.Store.NoneYet() }

// EndSpan writes the end of a command's span into command_trace. A failure to write it does not fail the command: the
// changes that it made have recorded the span in their own transactions, the last of them with its time as the end, so
// that no further one is needed unless the command failed or was still at work after tracing.OpenAfter. A scheduled run
// that changed nothing leaves no row. The span of a command that only read, or that could not have the database, is
// written only if that is possible without waiting.
func (l *Ledger) EndSpan(ctx context.Context, span *tracing.Span, failure error, onlyReads func() bool) {
	if unended := span.End(); !unended && failure == nil && (span.Saved() || span.Scheduled) {
		return
	}
	if !l.Store.Exists() {
		return // a command that made none leaves none
	}
	readOnly := onlyReads()
	text := ""
	if failure != nil {
		text = failure.Error()
		span.Set(tracing.AttrErrorType, string(orchestrator.CodeOf(failure)))
	}
	wait := l.Busy
	if readOnly {
		wait = 250 * time.Millisecond
	}
	ctx, cancel := Afterwards(ctx, failure, wait)
	defer cancel()
	err := l.Write(ctx, store.Shared, func(t *Tx) error { return span.Save(t, t.Clock, l.instance, text) })
	if err != nil {
		l.Log.Debug("cannot write the span of a command", "command", span.Name, "error", err)
	}
}

// saveOpen takes the end out of the row of a span whose command is still at work. A failure to write it does not matter
// much: the row then shows the last change of the command as its end.
func saveOpen(ctx context.Context, l *Ledger, span *tracing.Span, actor string) {
	ctx, cancel := context.WithTimeout(ctx, l.Busy)
	defer cancel()
	if err := l.Write(ctx, store.Shared, func(t *Tx) error { return span.SaveOpen(t, t.Clock, actor) }); err != nil &&
		ctx.Err() == nil {
		l.Log.Debug("cannot write the span of a command", "command", span.Name, "error", err)
	}
}

// Afterwards returns a context for what is still to be written about a request that has ended, even if ctx has ended,
// too. It lasts for wait; but only for one try if failure says that the request waited for the database in vain.
func Afterwards(ctx context.Context, failure error, wait time.Duration) (context.Context, context.CancelFunc) {
	if orchestrator.CodeOf(failure) == orchestrator.Busy && ctx.Err() == nil {
		wait = time.Millisecond // enough for one try
	}
	return context.WithTimeout(context.WithoutCancel(ctx), wait)
}

// TransportOf returns the transport of a target such as "jsonl:/path", and the address in it. The transport is nil if
// this program has none of that scheme.
func (l *Ledger) TransportOf(target string) (orchestrator.Transport, string) {
	scheme, address, _ := strings.Cut(target, ":")
	return l.Transports[scheme], address
}

// SetTransport returns the transport of an agent if it delivers within the database, as that into inboxes does; nil
// otherwise.
func (l *Ledger) SetTransport(a *Agent) orchestrator.SetTransport {
	transport, _ := l.TransportOf(a.Deliver)
	set, _ := transport.(orchestrator.SetTransport)
	return set
}

// Inbox returns the transport into inboxes; nil if this program has none.
func (l *Ledger) Inbox() orchestrator.SetTransport {
	set, _ := l.Transports["inbox"].(orchestrator.SetTransport)
	return set
}

type instanceKey struct{}

// WithInstance returns a context whose commands appear under another name than the process's own as lease owner and
// trace actor: the ORCHESTRATOR_INSTANCE_ID of one call. "" changes nothing.
func WithInstance(ctx context.Context, instance string) context.Context {
	if instance == "" {
		return ctx
	}
	return context.WithValue(ctx, instanceKey{}, instance)
}
