// Package ledger provides access to an open database and the operations through which every change of its rows
// passes. It contains the transactions with their clock, their ids and the identity of the caller; the configuration;
// the rows of agent_message, their changes of status, and the trace of each message. It does not depend on the record
// types above it (threads, questions, and so on): these register themselves as Parts.
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

// Options configures how a database is opened.
type Options struct {
	// Path is the path of the database file, or the address of a PostgreSQL server. A file that does not exist is
	// created, with its folder.
	Path string
	// State is a folder of the user for this machine's files that belong to a database on a server. "" means that
	// there is no such folder.
	State string
	// Instance is recorded as lease owner and trace actor. The default is HOST-PID.
	Instance string
	// Host is the name of this machine, for agents whose files and commands are on one machine. The default is the
	// machine's own name.
	Host string
	// Now returns the current time. The default is the clock of the database, see store.Central.
	Now func() time.Time
	// Transports holds the transports by scheme ("inbox", "jsonl"). Deliveries to an agent whose scheme is missing
	// fail.
	Transports map[string]orchestrator.Transport
	// User creates the transport to the user, with the scheme "person". That transport stores questions and
	// notifications for the user in the database itself. If User is nil, there is no such transport, unless
	// Transports contains one.
	User func(*Ledger) orchestrator.Transport
	// Log receives messages for the operator. The default is slog.Default().
	Log *slog.Logger
	// Trust records which databases may act outside of themselves. If Trust is nil, every database may, because a Go
	// program that opens a database makes this decision itself.
	Trust *Trust
	// Bell wakes daemons and waiters. The default uses unix sockets beside the database.
	Bell orchestrator.Bell
	// BusyTimeout limits the wait for another program's write lock. The default is 10 s.
	BusyTimeout time.Duration
	// Pulse is the interval at which a process signals the database server that it is alive. The default is 10 s.
	// Tests set less.
	Pulse time.Duration
	// CountEvery is the number of new messages after which message_count is updated. The default is 1000. Tests set
	// less.
	CountEvery int64
}

// Ledger is an open database with its configuration and the operations that change its rows. It is safe for
// concurrent use. Concurrent writes share one transaction and one fsync. Several processes may open the same file.
type Ledger struct {
	Store      store.Store
	instance   string
	host       string
	central    bool // several hosts may use the database
	now        func() time.Time
	ownClock   bool // see Options.Now
	Transports map[string]orchestrator.Transport
	User       func(*Ledger) orchestrator.Transport // see Options.User
	Log        *slog.Logger
	Trust      *Trust
	Busy       time.Duration
	Config     ConfigCache
	Parts      []*Part // the record types, see Part
	// this Ledger moves the database, and so writes where others may not, see takesWrites
	Moves      bool
	countEvery int64                  // see Options.CountEvery
	entropy    *ulid.MonotonicEntropy // for new ids; used only under the write lock
	queries    atomic.Int32           // number of audit queries now running, see EnterQuery
}

// New returns a Ledger with the given parts. It has no database yet: call UseStore next.
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

// UseStore sets the database. Write transactions of the store must call Begin and End. The clock of the database is
// used unless Options.Now is set.
func (l *Ledger) UseStore(s store.Store) {
	l.Store = s
	central, ok := s.(store.Central)
	if l.central = ok; ok && !l.ownClock {
		l.now = central.Now
	}
}

// Path returns the absolute path of the database file.
func (l *Ledger) Path() string { return l.Store.Path() }

// FilePrefix returns the common beginning of the paths of this machine's files that belong to the database, see
// store.Store.
func (l *Ledger) FilePrefix() string { return l.Store.FilePrefix() }

// Instance returns the name under which this process appears as lease owner and trace actor.
func (l *Ledger) Instance() string { return l.instance }

// Host returns the name of this machine, see Options.Host.
func (l *Ledger) Host() string { return l.host }

// IsCentral reports whether many hosts may use the database.
func (l *Ledger) IsCentral() bool { return l.central }

// Now returns the time of the engine's clock, see Options.Now.
func (l *Ledger) Now() time.Time { return l.now() }

// Close closes the database. No method may be called afterwards.
func (l *Ledger) Close() error { return l.Store.Close() }

// Create creates the database if it is a file that does not exist. It does not create a database at a path from which
// one has disappeared. It does not create one on a server, where an address with a typing error may lead as well;
// only Store.Create does. In these cases it returns an error with code unavailable that explains the reason.
func (l *Ledger) Create(ctx context.Context) error {
	if l.central {
		return l.Look(ctx, func(*store.Conn) error { return nil })
	}
	_, err := l.Store.Create()
	return err
}

// NoneYet reports whether the path has no database and no sign of an earlier one.
func (l *Ledger) NoneYet() bool { return l.Store.NoneYet() }

// EndSpan writes the end of a command's span into command_trace. If the write fails, the command does not fail. The
// transactions of the command have already recorded the span, the last of them with its own time as the end. A
// further write is therefore needed only if the command failed or was still running after tracing.OpenAfter. A
// scheduled run that changed nothing leaves no row. The span of a command that only read, or that could not access
// the database, is written only if that is possible without waiting.
func (l *Ledger) EndSpan(ctx context.Context, span *tracing.Span, failure error, onlyReads func() bool) {
	if unended := span.End(); !unended && failure == nil && (span.Saved() || span.Scheduled) {
		return
	}
	if !l.Store.Exists() {
		return // a command that created no database leaves none
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

// saveOpen removes the end from the row of a span whose command is still running. A failure to write has little
// effect: the row then shows the last change of the command as its end.
func saveOpen(ctx context.Context, l *Ledger, span *tracing.Span, actor string) {
	ctx, cancel := context.WithTimeout(ctx, l.Busy)
	defer cancel()
	if err := l.Write(ctx, store.Shared, func(t *Tx) error { return span.SaveOpen(t, t.Clock, actor) }); err != nil &&
		ctx.Err() == nil {
		l.Log.Debug("cannot write the span of a command", "command", span.Name, "error", err)
	}
}

// Afterwards returns a context for the final writes about a request that has ended, even if ctx has ended, too. The
// context lasts for wait, or only long enough for one attempt if failure means that the request waited for the
// database in vain.
func Afterwards(ctx context.Context, failure error, wait time.Duration) (context.Context, context.CancelFunc) {
	if orchestrator.CodeOf(failure) == orchestrator.Busy && ctx.Err() == nil {
		wait = time.Millisecond // enough for one try
	}
	return context.WithTimeout(context.WithoutCancel(ctx), wait)
}

// TransportOf returns the transport and the address of a target such as "jsonl:/path". The transport is nil if this
// program has none with that scheme.
func (l *Ledger) TransportOf(target string) (orchestrator.Transport, string) {
	scheme, address, _ := strings.Cut(target, ":")
	return l.Transports[scheme], address
}

// SetTransport returns the transport of an agent if that transport delivers within the database, as the inbox
// transport does. Otherwise it returns nil.
func (l *Ledger) SetTransport(a *Agent) orchestrator.SetTransport {
	transport, _ := l.TransportOf(a.Deliver)
	set, _ := transport.(orchestrator.SetTransport)
	return set
}

// Inbox returns the inbox transport, or nil if this program has none.
func (l *Ledger) Inbox() orchestrator.SetTransport {
	set, _ := l.Transports["inbox"].(orchestrator.SetTransport)
	return set
}

type instanceKey struct{}

// WithInstance returns a context whose commands use the given name as lease owner and trace actor in place of the
// process's own: the ORCHESTRATOR_INSTANCE_ID of one call. An empty name changes nothing.
func WithInstance(ctx context.Context, instance string) context.Context {
	if instance == "" {
		return ctx
	}
	return context.WithValue(ctx, instanceKey{}, instance)
}
