// Package postgres stores the database on a PostgreSQL server. It rewrites the statements, which are written for
// SQLite.
//
// Transactions of all processes on all hosts write at the same time, as far as the advisory locks at their beginning
// allow: see locks.go.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/pulse"
	"mailroom/orchestrator/store/postgres/wire"
)

// Options configures a database on a server.
type Options struct {
	// DSN is the address of the database, as a URL: postgres://USER@HOST/DATABASE. The tables are in the schema that
	// search_path names; the default is mailroom.
	DSN string
	// State is the folder for this machine's files of the database, which get a folder of their own in it. If it is
	// empty, there is no such folder.
	State string
	// Log receives messages for the operator.
	Log *slog.Logger
	// Bell wakes daemons and waiters. If it is nil, the store uses NOTIFY.
	Bell orchestrator.Bell
	// BusyTimeout limits the wait for the writes of another process.
	BusyTimeout time.Duration
	// Now is the clock of this machine. If it is nil, the store uses time.Now.
	Now func() time.Time
	// Pulse is the interval at which a process that takes leases shows that it is alive. 0 means 10 s. Tests use
	// less.
	Pulse time.Duration
	// Made is called with the id of a database that this process has created, before anybody else can see the
	// database.
	Made func(id string)
	// Begin is called at the beginning of each write transaction, and End before its commit. An error ends the
	// transaction.
	Begin, End func(t *store.Transaction) error
}

// Store is a database on a server. It is safe for concurrent use.
type Store struct {
	dsn    string // with the password, if it has one
	config *pgconn.Config
	path   string
	schema string
	state  string
	id     atomic.Pointer[string] // of the database, nil until known
	direct *pgconn.Config         // for connections past a pooler; same as config if there is no such way
	pooled atomic.Bool            // a pooler is in use
	hosts  []host
	leader leader
	outage outage
	log    *slog.Logger
	busy   time.Duration
	made   func(id string)
	upgrades

	found   atomic.Bool // the database exists
	missed  atomic.Bool // this process has waited for the server without success
	bell    orchestrator.Bell
	notices *notices // nil if Options has a Bell
	pulse   *pulse.Pulse
	clock   clock
	backend *backend
	writer  *store.Writer
	readers readers
	settled settled
}

// IsAddress reports whether the address of a database is that of a PostgreSQL server.
func IsAddress(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// Open prepares a store. The connection is made by the first operation that needs it.
func Open(o Options) (*Store, error) {
	dsn, direct := splitDirect(o.DSN)
	config, err := configOf(dsn)
	if err != nil {
		return nil, err
	}
	s := &Store{
		dsn: dsn, config: config, path: withoutPassword(o.DSN), schema: config.RuntimeParams["search_path"],
		state: o.State, log: o.Log, busy: o.BusyTimeout, made: o.Made, upgrades: present,
		bell: o.Bell, hosts: hostsOf(config), leader: leader{conns: map[*conn]bool{}},
	}
	if s.direct = config; direct != "" {
		if s.direct, err = configOf(direct); err != nil {
			return nil, err
		}
		s.direct.RuntimeParams["search_path"] = s.schema
	}
	if len(s.hosts) > 1 { // a standby may first have to notice that it must take over
		s.busy *= 3
	}
	if s.bell == nil {
		s.notices = newNotices(s)
		s.bell = s.notices
	}
	if s.clock.local = o.Now; o.Now == nil {
		s.clock.local = time.Now
	}
	s.pulse = pulse.New(cmp.Or(o.Pulse, pulse.DefaultInterval), s.connectPulse, s.log)
	s.backend = newBackend(s)
	s.writer = &store.Writer{Backend: s.backend, Bell: s.bell, Log: s.log, Busy: s.busy, Begin: o.Begin, End: o.End}
	s.readers = readers{s: s, places: make(chan struct{}, mostOpen)}
	return s, nil
}

// splitDirect separates the address past a pooler from the rest of an address.
func splitDirect(dsn string) (rest, direct string) {
	address, err := url.Parse(dsn)
	if err != nil {
		return dsn, ""
	}
	query := address.Query()
	direct = query.Get("direct")
	query.Del("direct")
	address.RawQuery = query.Encode()
	return address.String(), direct
}

// configOf parses an address. The error is invalid_params. It contains no part of the address, which may have a
// password.
func configOf(dsn string) (*pgconn.Config, error) {
	wrong := orchestrator.Errorf(orchestrator.InvalidParams,
		"the address of the database must have the form postgres://USER@HOST/DATABASE").
		WithHint("Put the password into ~/.pgpass or PGPASSWORD. In USER and DATABASE, percent-encode characters that are not letters or digits")
	address, err := url.Parse(dsn)
	if err != nil || !IsAddress(dsn) || strings.Contains(address.Path+address.Fragment, "@") ||
		strings.Contains(address.Host, "@") {
		return nil, wrong // a password with characters that have a meaning in an address
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if file := address.Query().Get(name); file != "" && file != "system" {
			if _, err := os.Stat(file); err != nil {
				return nil, orchestrator.Errorf(orchestrator.InvalidParams,
					"cannot read the file in the parameter %s of the address: %v", name, err)
			}
		}
	}
	config, err := pgconn.ParseConfig(address.String())
	if query := address.Query(); err == nil && query.Get("sslmode") == "" && os.Getenv("PGSSLMODE") == "" &&
		!isLocal(config) {
		query.Set("sslmode", "verify-full")
		address.RawQuery = query.Encode()
		config, err = pgconn.ParseConfig(address.String())
	}
	if err != nil {
		return nil, wrong
	}
	maps.Copy(config.RuntimeParams, settings)
	maps.Copy(config.RuntimeParams,
		map[string]string{"client_encoding": "UTF8", "client_min_messages": "warning", "tcp_user_timeout": "10s",
			// Without keepalives, the locks of a host that has vanished last for hours.
			"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "4",
		})
	config.RuntimeParams["search_path"] = cmp.Or(config.RuntimeParams["search_path"], "mailroom")
	config.RuntimeParams["application_name"] = cmp.Or(config.RuntimeParams["application_name"], "mailroom")
	if schema := config.RuntimeParams["search_path"]; !orchestrator.IsName(schema) || strings.Contains(schema, "-") ||
		strings.HasPrefix(schema, "pg_") || len(schema) > maxSchema {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams,
			"search_path must name one schema, and the name can have at most %d lowercase letters, digits, and underscores", maxSchema)
	}
	several := len(hostsOf(config)) > 1
	if several && !address.Query().Has("target_session_attrs") && os.Getenv("PGTARGETSESSIONATTRS") == "" {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if !address.Query().Has("connect_timeout") {
		config.ConnectTimeout = 10 * time.Second
		if several { // a server that hangs must not delay the connection to the others
			config.ConnectTimeout = 3 * time.Second
		}
	}
	config.DialFunc = dial
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, CancelRequestDelay: 0,
			DeadlineDelay: 2 * time.Second}
	}
	return config, nil
}

// maxSchema is the maximum length of a schema name, in bytes. The name of the notification channel is longer.
const maxSchema = 54

// isLocal reports whether all connections stay on this machine: through a socket or the loopback address.
func isLocal(config *pgconn.Config) bool {
	hosts := []string{config.Host}
	for _, other := range config.Fallbacks {
		hosts = append(hosts, other.Host)
	}
	return !slices.ContainsFunc(hosts, func(host string) bool {
		return host != "" && host != "localhost" && host != "127.0.0.1" && host != "::1" &&
			!strings.HasPrefix(host, "/")
	})
}

// withoutPassword returns an address without its passwords.
func withoutPassword(dsn string) string {
	address, err := url.Parse(dsn)
	if err != nil {
		return "postgres://"
	}
	if address.User != nil {
		address.User = url.User(address.User.Username())
	}
	query := address.Query()
	for name := range query {
		if strings.EqualFold(name, "password") || strings.EqualFold(name, "sslpassword") {
			query.Del(name)
		}
	}
	if direct := query.Get("direct"); direct != "" {
		query.Set("direct", withoutPassword(direct))
	}
	address.RawQuery = query.Encode()
	return address.String()
}

// Write runs a request in a write transaction.
func (s *Store) Write(q *store.Request) error { return s.writer.Submit(q) }

// Path returns the address of the database without a password.
func (s *Store) Path() string { return s.path }

// Place returns the servers, the database and the schema.
func (s *Store) Place() string {
	var hosts []string
	for _, h := range s.hosts {
		hosts = append(hosts, h[0].Host+":"+strconv.Itoa(int(h[0].Port)))
	}
	return strings.Join(hosts, ",") + "/" + cmp.Or(s.config.Database, s.config.User) + "/" + s.schema
}

// databaseID returns the id of the database. It connects if this process has not connected yet.
func (s *Store) databaseID() (string, error) {
	if s.id.Load() == nil {
		if err := s.Look(context.Background(), func(*store.Conn) error { return nil }); err != nil {
			return "", err
		}
	}
	if id := s.id.Load(); id != nil {
		return *id, nil
	}
	return "", errors.New("no connection has reported the id of the database")
}

// FilePrefix returns a path in a folder of the state folder that has the database's id as its name. If there can be
// no such folder, it returns a path where no file can be created, and which contains the reason.
func (s *Store) FilePrefix() string {
	const nowhere = os.DevNull + "/"
	if s.state == "" {
		return nowhere + "HOME or XDG_STATE_HOME must name a folder"
	}
	id, err := s.databaseID()
	if err == nil && (id != filepath.Base(id) || !filepath.IsLocal(id)) {
		err = errors.New("the id of the database is not a valid folder name: " + strconv.Quote(id))
	}
	folder := filepath.Join(s.state, id)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return nowhere + err.Error()
	}
	return filepath.Join(folder, "mailroom")
}

// Bell returns the bell that wakes those who wait for the writes of others.
func (s *Store) Bell() orchestrator.Bell { return s.bell }

// connectPulse connects the pulse to the database.
func (s *Store) connectPulse(ctx context.Context) (*wire.Conn, error) {
	c, said, err := s.connectPast(ctx, s.direct)
	if err == nil {
		c, err = s.enter(ctx, c, said)
	}
	if err != nil {
		return nil, err
	}
	return c.Conn, nil
}

// Token makes a lease token of this process from an id.
func (s *Store) Token(id string) string { return s.pulse.Token(id) }

// Gone reports whether the process that made a token is known to be dead. It takes less than a minute to find out.
func (s *Store) Gone(token string) bool { return s.pulse.Gone(token) }

// Alive returns a context that ends when other hosts may soon consider this process dead because it cannot reach the
// server.
func (s *Store) Alive() context.Context { return s.pulse.Alive() }

// Now returns the time of the server's clock. Before the first connection it returns the time of this machine's
// clock.
func (s *Store) Now() time.Time { return s.clock.now() }

// Exists reports whether the database exists.
func (s *Store) Exists() bool {
	if s.found.Load() {
		return true
	}
	err := s.Look(context.Background(), func(*store.Conn) error { return nil })
	return err == nil
}

// NoneYet reports whether the server has no such database. It returns false if the server does not answer.
func (s *Store) NoneYet() bool {
	err := s.Look(context.Background(), func(*store.Conn) error { return nil })
	return errors.Is(err, errNone)
}

// Ready checks that the database can be read and written now.
func (s *Store) Ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return store.GaveUp(ctx)
	}
	return s.Look(ctx, func(c *store.Conn) error {
		readOnly, _, err := c.Text(`SELECT current_setting('transaction_read_only') FROM settings WHERE key = ?1`,
			versionKey)
		if err == nil && readOnly == "on" {
			err = takesNoWrites(s, nil)
		}
		return err
	})
}

// Size returns the bytes of the tables and their indexes. The server's log does not belong to the database.
func (s *Store) Size() (all, log int64) {
	err := s.Look(context.Background(), func(c *store.Conn) (err error) {
		all, err = c.Number(`SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'
			AND relnamespace = current_schema()::regnamespace`)
		return err
	})
	if err != nil {
		return 0, 0
	}
	return all, 0
}

// Close waits for running writes and closes the connections.
func (s *Store) Close() error {
	if s.notices != nil {
		defer s.notices.close()
	}
	s.readers.close()
	err := s.writer.Finish()
	if err == store.ErrClosed {
		return nil // already closed, or another goroutine is closing it
	}
	s.backend.shut()
	s.pulse.Close()
	return err
}
