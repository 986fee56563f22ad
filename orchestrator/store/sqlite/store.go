// Package sqlite stores the database in a SQLite file. It opens connections, makes commits in the write-ahead log
// durable, gives turns to processes that write, backs up and restores the database, and wakes waiters after a
// commit. Package tables creates the contents of the file, and package check examines them.
package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/bell"
	"mailroom/orchestrator/store/sqlite/tables"
)

// Options configures a database file.
type Options struct {
	// Path is the path of the database file. The file and its folder are created if they do not exist.
	Path string
	// Now is the clock.
	Now func() time.Time
	// Log receives messages for the operator.
	Log *slog.Logger
	// Bell wakes daemons and waiters. If it is nil, the store uses Unix sockets beside the database.
	Bell orchestrator.Bell
	// BusyTimeout limits the wait for the write lock of another program.
	BusyTimeout time.Duration
	// Made is called with the id of a database that this process has created, before anybody else can see the
	// database.
	Made func(id string)
	// Begin is called at the beginning of each write transaction, and End before its commit. An error ends the
	// transaction.
	Begin, End func(t *store.Transaction) error
}

// Store is a database file. It is safe for concurrent use. Several processes may have the same file open.
type Store struct {
	dbFile
	now  func() time.Time
	bell orchestrator.Bell
	busy time.Duration
	made func(id string)

	// closeEar and closeRinger close the files that the bell keeps open.
	closeEar, closeRinger func()

	damage   atomic.Pointer[error] // see noteDamage
	checking atomic.Bool           // whether a check for damage is running

	backend *backend
	writer  *store.Writer
	pulse   *pulse
	readers readers
	commits commits

	mu    sync.Mutex
	watch observer // see Watch
}

// Open prepares a store. It accesses the disk only to reject a path that cannot be a database, and to find out whether
// there is a database. The file is opened by the first operation that needs it, and created by the first write or by
// Create.
func Open(o Options) (*Store, error) {
	if strings.ContainsRune(o.Path, 0) || o.Path == "" {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the path of the database must not be empty or contain a NUL character").
			WithHint("Specify a file with --db")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	info, statErr := os.Stat(path)
	if statErr == nil && !info.Mode().IsRegular() {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "%s cannot be a database: it is not a regular file",
			path).WithHint("%s", whyNotOpen(path))
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a file with two names must have only one turnstile and one bell
	}
	s := &Store{
		dbFile: dbFile{path: path, log: o.Log}, now: o.Now, bell: o.Bell, busy: o.BusyTimeout, made: o.Made,
		closeEar: func() {}, closeRinger: func() {}, pulse: newPulse(path),
	}
	if s.bell == nil {
		sockets := bell.New(path, s.log)
		sockets.Detector, sockets.Exists, sockets.Linger = s.detectChanges, s.Exists, 2*time.Second
		s.bell, s.closeEar, s.closeRinger = sockets, sockets.Close, sockets.CloseRinger
	}
	// Another process may empty the file after the Stat and before isUnborn, so the size is checked again.
	s.found.Store(statErr == nil && info.Size() > 0 && !isUnborn(path) && !s.missing())
	s.backend = &backend{s: s, turn: newTurnstile(path)}
	s.writer = &store.Writer{Backend: s.backend, Bell: s.bell, Log: s.log, Busy: s.busy, Begin: o.Begin, End: o.End}
	s.commits.s = s
	s.readers = readers{s: s, places: make(chan struct{}, mostOpen), freed: make(chan struct{}, maxReaders)}
	return s, nil
}

// Close waits for running writes and reads and closes the connections. The last process that closes a database also
// folds the WAL into the file.
func (s *Store) Close() error {
	s.closeEar()
	defer s.closeRinger()
	defer s.pulse.close()
	return errors.Join(s.readers.close(), s.closeWriter())
}

// closeWriter waits for the leader and closes the connection. Its error includes an error of the last batch.
func (s *Store) closeWriter() error {
	defer s.backend.turn.close()
	defer s.keepWAL(nil)
	if !s.backend.isOpen() {
		return nil
	}
	err := s.writer.Finish() // after the last request nobody uses the connection
	if err == store.ErrClosed {
		return err // another goroutine is closing it
	}
	return errors.Join(err, s.backend.close())
}

// Write runs a request in a write transaction.
func (s *Store) Write(q *store.Request) error { return s.writer.Submit(q) }

// Bell returns the bell that wakes those who wait for the writes of others.
func (s *Store) Bell() orchestrator.Bell { return s.bell }

// FilePrefix returns the path of the database file.
func (s *Store) FilePrefix() string { return s.path }

// Explain adds to an error of the database its code and a hint what to do.
func (s *Store) Explain(err error) error { return databaseError(s.path, err) }

// Token makes a lease token of this process from an id.
func (s *Store) Token(id string) string { return s.pulse.token(id) }

// Gone reports whether the process that made a token is known to be dead.
func (s *Store) Gone(token string) bool { return s.pulse.gone(token) }

// Alive returns a context that never ends, because a lock on a file cannot be lost.
func (s *Store) Alive() context.Context { return context.Background() }

// write runs fn in a write transaction.
func (s *Store) write(ctx context.Context, fn store.Job) error {
	return s.Write(&store.Request{Ctx: ctx, Work: fn})
}

// Create creates the database if it does not exist yet, and reports whether it did. It does not create one where a
// database existed before.
func (s *Store) Create() (created bool, err error) {
	if created = !s.Exists(); created && s.found.Load() {
		return false, s.noDatabase()
	}
	s.making.Store(true)
	return created, s.backend.open(time.Now().Add(s.busy))
}

// openWriter opens the connection that writes, and first creates and migrates the file if necessary. Many processes
// may do this at once: they queue at the turnstile, and busy errors of SQLite are retried until the given time.
func (s *Store) openWriter(until time.Time) (*conn, error) {
	var c *conn
	open := func() (err error) {
		if err = s.createEmpty(); err != nil {
			return backoff.Permanent(err)
		}
		if c, err = s.openFile(writerDSN(s.path)); err != nil {
			return retryable(err)
		}
		if err = s.ready(c, until); err != nil {
			c.close()
			return retryable(err)
		}
		return nil
	}
	if err := backoff.Retry(open, patience(context.Background(), until)); err != nil {
		return nil, databaseError(s.path, err)
	}
	s.found.Store(true)
	// Creating and migrating the file was already durable. From here on walFile makes commits durable.
	if err := c.Script("PRAGMA synchronous = NORMAL"); err != nil {
		c.close()
		return nil, databaseError(s.path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch != nil {
		s.watch.attach(c)
	}
	return c, nil
}

// ready makes sure that an open file is in WAL mode and has the tables of this version.
func (s *Store) ready(c *conn, until time.Time) error {
	version, err := tables.CheckVersion(c.Conn)
	if err != nil {
		return err
	}
	if version < tables.Version {
		leave := s.backend.turn.enter(time.Until(until))
		defer leave()
		if err := tables.MayMigrate(c.Conn, s.making.Load()); err != nil {
			return err
		}
		if err := tables.PrepareFile(c.Conn); err != nil {
			return err
		}
		if err := store.SyncFolders(filepath.Dir(s.path)); err != nil {
			return err
		}
		if err := c.Migrate(s.made); err != nil {
			return err
		}
	}
	return c.Script("PRAGMA temp_store = MEMORY; CREATE TEMP TABLE batch (seq INTEGER PRIMARY KEY)")
}
