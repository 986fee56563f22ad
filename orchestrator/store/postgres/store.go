// Package postgres is a database on a PostgreSQL server. Its statements and tables are those of SQLite, which it
// rewrites.
//
// Transactions write at the same time, of all processes on all hosts, as far as the advisory locks allow it with which
// they begin: see locks.go.
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

// Options say how to reach a database.
type Options struct {
	// DSN is its address, as a URL: postgres://USER@HOST/DATABASE. Its tables are in the schema that search_path names,
	// mailroom if that is left out.
	DSN string
	// State is the folder in which this machine's files of the database stand, in a folder of its own. "": there is
	// none.
	State string
	// Log gets what an operator should know.
	Log *slog.Logger
	// Bell wakes daemons and waiters. nil: NOTIFY.
	Bell orchestrator.Bell
	// BusyTimeout bounds the wait for what another process writes.
	BusyTimeout time.Duration
	// Now is the clock of this machine. nil: time.Now.
	Now func() time.Time
	// Pulse is how often a process that takes leases shows that it lives. 0: 10 s. A test sets less.
	Pulse time.Duration
	// Made is told the id of a database that this process has made, before anybody else can see it.
	Made func(id string)
	// Begin is called at the beginning of each write transaction, and End before it is committed. An error ends it.
	Begin, End func(t *store.Transaction) error
}

// Store is a database on a server. It is safe for concurrent use.
type Store struct {
	dsn    string // with its password, if it holds one
	config *pgconn.Config
	path   string
	schema string
	state  string
	id     atomic.Pointer[string] // of the database, once it is known
	direct *pgconn.Config         // past a pooler; the same where there is none
	pooled atomic.Bool            // there is one
	hosts  []host
	leader leader
	outage outage
	log    *slog.Logger
	busy   time.Duration
	made   func(id string)
	upgrades

	found   atomic.Bool // the database is there
	missed  atomic.Bool // its server was waited for in vain
	bell    orchestrator.Bell
	notices *notices // nil where the caller brought a bell
	pulse   *pulse.Pulse
	clock   clock
	backend *backend
	writer  *store.Writer
	readers readers
	settled settled
}

// IsAddress reports whether an address of a database names a server of this kind.
func IsAddress(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// Open prepares a store. It does not connect: the first that needs the database does.
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
	if len(s.hosts) > 1 { // one of them may have to notice first that it is to take over
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

// splitDirect takes the address past a pooler out of an address.
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

// configOf reads an address. Error: invalid_params, which shows nothing of it, since it may hold a password.
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
			"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "4", // or the locks of a host that has vanished last for hours
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
		if several { // one that stands still is not to keep us from the others
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

// maxSchema is the longest name of a schema, in bytes: that of the channel for notices is longer.
const maxSchema = 54

// isLocal reports whether no connection can leave this machine: to a socket, or loopback.
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

// withoutPassword returns an address without the password in it.
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

// Write does the work of a request in a write transaction.
func (s *Store) Write(q *store.Request) error { return s.writer.Submit(q) }

// Path names the database, without a password.
func (s *Store) Path() string { return s.path }

// Place names the servers, the database and the schema.
func (s *Store) Place() string {
	var hosts []string
	for _, h := range s.hosts {
		hosts = append(hosts, h[0].Host+":"+strconv.Itoa(int(h[0].Port)))
	}
	return strings.Join(hosts, ",") + "/" + cmp.Or(s.config.Database, s.config.User) + "/" + s.schema
}

// databaseID returns the id of the database. It connects if this process has not yet.
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

// FilePrefix is a path in a folder of the state folder that is named after the database's id. Where there can be none, it
// is a path at which nothing can be, and which gives the reason.
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

// Bell returns what wakes those who wait for what others write.
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

// Token makes the token of a lease of this process out of an id.
func (s *Store) Token(id string) string { return s.pulse.Token(id) }

// Gone reports whether the process that made a token is known to be dead, which takes less than a minute.
func (s *Store) Gone(token string) bool { return s.pulse.Gone(token) }

// Alive returns a context that ends when other hosts may soon take this process for dead, since it cannot reach the
// server.
func (s *Store) Alive() context.Context { return s.pulse.Alive() }

// Now returns the time by the server's clock, and by this machine's until there was a connection.
func (s *Store) Now() time.Time { return s.clock.now() }

// Exists reports whether there is a database.
func (s *Store) Exists() bool {
	if s.found.Load() {
		return true
	}
	err := s.Look(context.Background(), func(*store.Conn) error { return nil })
	return err == nil
}

// NoneYet reports whether there is none, which a server that does not answer cannot say.
func (s *Store) NoneYet() bool {
	err := s.Look(context.Background(), func(*store.Conn) error { return nil })
	return errors.Is(err, errNone)
}

// Ready reports whether the database can be read and written now.
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

// Size returns the bytes that the tables and their indexes take. The server's log is not the database's.
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

// Close waits for what is being written, and closes the connections.
func (s *Store) Close() error {
	if s.notices != nil {
		defer s.notices.close()
	}
	s.readers.close()
	err := s.writer.Finish()
	if err == store.ErrClosed {
		return nil // it is closed already, or somebody else is closing it
	}
	s.backend.shut()
	s.pulse.Close()
	return err
}
