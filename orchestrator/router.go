package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

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
	path       string
	instance   string
	now        func() time.Time
	transports map[string]Transport
	log        *slog.Logger
	bell       Bell
	trust      *Trust
	// closeEar and closeRinger end what the bell of this router keeps open.
	closeEar, closeRinger func()

	busy     time.Duration
	damage   atomic.Pointer[error] // see noteDamage
	checking atomic.Bool           // whether the damage is still there

	writer  *writer
	pulse   *pulse
	readers readers
	config  configCache
	parts   []*Part // what the records add to the engine

	found atomic.Bool // there was a database at path, and no empty file: where it is gone, none is made

	returning returnTrouble // one goroutine sends answers of the user back

	mu         sync.Mutex
	file       fileID   // that was opened last
	wal        *walFile // that the writer opened last, see keepWAL
	watch      observer // see Watch
	workers    sync.WaitGroup
	delivering map[string]int           // workers of this process by the recipient that they deliver to
	seats      map[string]chan struct{} // by scheme: bounds the workers that deliver through a transport at the same time
}

// maxWorkers bounds the workers of one process that deliver through one transport at the same time, and so the files,
// connections and processes that it has for them. Each transport has its own: commands that take their time delay no file.
const maxWorkers = 256

// openWith prepares a Router whose engine has these parts.
func openWith(o Options, parts []*Part) (*Router, error) {
	if strings.ContainsRune(o.Path, 0) || o.Path == "" {
		return nil, Errorf(InvalidParams, "the path of the database is empty or holds a NUL").WithHint("Name a file with --db")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	info, statErr := os.Stat(path)
	if statErr == nil && !info.Mode().IsRegular() {
		return nil, Errorf(Unavailable, "%s cannot be a database: it is not a regular file", path).WithHint("%s", whyNotOpen(path))
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the same file by two names must have one turnstile and one bell
	}
	r := &Router{
		path: path, instance: o.Instance, now: o.Now, transports: o.Transports, log: o.Log, bell: o.Bell, trust: o.Trust,
		parts: parts, closeEar: func() {}, closeRinger: func() {}, busy: o.BusyTimeout, delivering: map[string]int{}, seats: map[string]chan struct{}{},
	}
	for scheme := range o.Transports {
		r.seats[scheme] = make(chan struct{}, maxWorkers)
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
	if r.bell == nil {
		bell := newBell(path, r.log)
		bell.detector, bell.exists, bell.linger = r.detectChanges, r.exists, 2*time.Second
		r.bell, r.closeEar, r.closeRinger = bell, bell.close, bell.ringer.close
	}
	r.found.Store(statErr == nil && info.Size() > 0)
	r.config.parts, r.config.judge = parts, r.judge
	r.writer = &writer{r: r, turn: newTurnstile(path)}
	r.pulse = newPulse(path)
	r.readers = readers{r: r, places: make(chan struct{}, mostOpen), freed: make(chan struct{}, maxReaders)}
	return r, nil
}

// Path returns the absolute path of the database file.
func (r *Router) Path() string { return r.path }

// Instance returns the name under which this process appears as lease owner and trace actor.
func (r *Router) Instance() string { return r.instance }

// Now reads the router's clock.
func (r *Router) Now() time.Time { return r.now() }

// Drain waits for deliveries under way. No new ones may be asked for meanwhile.
func (r *Router) Drain() { r.workers.Wait() }

// Close waits for deliveries under way, then closes the connections. The last process to close a database also folds
// the WAL into it. Nothing may be called afterwards.
func (r *Router) Close() error {
	r.workers.Wait()
	r.closeEar()
	defer r.closeRinger()
	defer r.pulse.close()
	return errors.Join(r.readers.close(), r.writer.close())
}

// Create makes the database if it is not there yet, and reports whether it did. It makes none where there was one before.
func (r *Router) Create(ctx context.Context) (created bool, err error) {
	if created = !r.exists(); created && r.found.Load() {
		return false, r.noDatabase()
	}
	return created, r.writer.open(time.Now().Add(r.busy))
}

// openWriter opens the connection that writes, making and migrating the file first where needed. Many processes may do
// this at once: they queue at the turnstile, and what SQLite still refuses as busy is tried again, until a certain time.
func (r *Router) openWriter(until time.Time) (*conn, error) {
	var c *conn
	open := func() (err error) {
		if err = r.createEmpty(); err != nil {
			return backoff.Permanent(err)
		}
		if c, err = r.openFile(writerDSN(r.path)); err != nil {
			return retryable(err)
		}
		if err = r.ready(c, until); err != nil {
			c.close()
			return retryable(err)
		}
		return nil
	}
	if err := backoff.Retry(open, patience(context.Background(), until)); err != nil {
		return nil, databaseError(r.path, err)
	}
	r.found.Store(true)
	// Making and migrating the file was durable by itself; from here on walFile is what makes commits durable.
	if err := c.script("PRAGMA synchronous = NORMAL"); err != nil {
		c.close()
		return nil, databaseError(r.path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watch != nil {
		r.watch.attach(c)
	}
	return c, nil
}

// ready makes sure that an open file is in WAL mode and has the tables of this version.
func (r *Router) ready(c *conn, until time.Time) error {
	version, err := checkVersion(c)
	if err != nil {
		return err
	}
	if version < schemaVersion {
		leave := r.writer.turn.enter(time.Until(until))
		defer leave()
		if err := mayMigrate(c); err != nil {
			return err
		}
		if err := prepareFile(c); err != nil {
			return err
		}
		if err := syncFolders(filepath.Dir(r.path)); err != nil {
			return err
		}
		if err := migrate(c, r.trustNew); err != nil {
			return err
		}
	}
	return c.script("PRAGMA temp_store = MEMORY; CREATE TEMP TABLE batch (seq INTEGER PRIMARY KEY)")
}

// EndSpan writes the end of a command's span. A failure to write it does not fail the command: the changes that matter
// carried the span with them in their own transactions. A scheduled run that changed nothing leaves no row; the span of
// a command that only reads, or that could not have the database, is written if that is possible at once.
func (r *Router) EndSpan(ctx context.Context, span *tracing.Span, failure error, onlyReads func() bool) {
	if failure == nil && (span.Saved() || span.Scheduled) {
		return
	}
	readOnly := onlyReads()
	if (readOnly || failure != nil) && !r.exists() {
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

func (r *Router) exists() bool {
	_, err := os.Stat(r.path)
	return err == nil && !r.missing()
}

// missing reports whether there is no database at the path. An empty file is none: what only reads makes none in it, and what
// writes does unless there was one at the path before, which somebody has moved away.
func (r *Router) missing() bool {
	info, err := os.Stat(r.path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// NoneYet reports whether there is no database at the path, and nothing shows that there was one.
func (r *Router) NoneYet() bool { return r.missing() && !r.gone() }

// gone reports whether a database that was at the path is not there any more: this router found it before, or its -wal is left.
func (r *Router) gone() bool { return r.found.Load() && r.missing() || orphanedWAL(r.path) }
