// Package postgrestest starts a PostgreSQL server for tests: Debian's version, in a temporary folder, as a user
// other than root.
package postgrestest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Start starts a server with an empty cluster until the end of the test, and returns the address of a database for
// the superuser, to which parameters can be added with &. settings are additional settings in the form of postgres's
// command line. The server listens only on a socket in its folder. Without PostgreSQL, Start skips the test, or
// fails the test if CI is set.
func Start(t testing.TB, settings ...string) (dsn string) {
	t.Helper()
	return StartVersion(t, 0, settings...)
}

// StartVersion starts a server of another version than Debian's, which `make servers` installs. Version 0 is
// Debian's.
func StartVersion(t testing.TB, version int, settings ...string) (dsn string) {
	t.Helper()
	dsn, stop, err := Run(t.Context(), version, strings.Join(settings, " "))
	if errors.Is(err, ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return dsn
}

// Variable is the environment variable with the address of a running server on which tests have their databases.
// Without it, the databases are files. See enginetest.Place.
const Variable = "MAILROOM_TEST_STORE"

// Careless are faster settings of a server, for tests that do not check what is on the disk after a power cut.
const Careless = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=256MB"

// Run starts a server for programs, which must call stop at the end. Version 0 is Debian's.
func Run(ctx context.Context, version int, settings string) (dsn string, stop func() error, err error) {
	s, err := newServer(version)
	if err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(s.stop(), os.RemoveAll(s.folder)) }
	defer func() {
		if err != nil {
			_ = os.RemoveAll(s.folder)
		}
	}()
	if err := s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
		"-N"); err != nil {
		return "", nil, err
	}
	if err := s.start(settings); err != nil {
		return "", nil, err
	}
	dsn = s.address()
	if _, err := SQL(ctx, dsn, "CREATE ROLE mailroom_audit LOGIN NOINHERIT CONNECTION LIMIT 1000"); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return dsn, stop, nil
}

// Standby starts a standby of a server that Start started, until the end of the test, and returns its address. The
// standby follows the primary by streaming under the given name.
func Standby(t testing.TB, primary, name string) (dsn string) {
	t.Helper()
	from, err := serverOf(primary)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.stop(), os.RemoveAll(s.folder)); err != nil {
			t.Error(err)
		}
	})
	if err := s.run("pg_basebackup", "-D", s.data(), "-R", "-X", "stream", "-c", "fast", "-d",
		"host="+from.folder+" user=postgres application_name="+name); err != nil {
		t.Fatal(err)
	}
	if err := s.start(""); err != nil {
		t.Fatal(err)
	}
	return s.address()
}

// Stop ends a server that Start started, like a crash: the server writes nothing more, and drops its sessions.
func Stop(t testing.TB, dsn string) {
	t.Helper()
	s, err := serverOf(dsn)
	if err == nil {
		err = s.stop()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Restart restarts a server that Start started. If the server is running, it is first ended without notice to its
// clients, like in a power failure. Restart returns when the server is available again.
func Restart(dsn string) error {
	s, err := serverOf(dsn)
	if err != nil {
		return err
	}
	for range 20 { // a process of the old server may still hold its shared memory
		if err = s.run("pg_ctl", "-D", s.data(), "-w", "-m", "immediate", "-l", s.log(), "restart"); err == nil {
			break
		}
	}
	return err
}

// Again starts a server that was stopped.
func Again(t testing.TB, dsn string) {
	t.Helper()
	if err := Restart(dsn); err != nil {
		t.Fatal(err)
	}
}

// serverOf returns the server with an address.
func serverOf(dsn string) (server, error) {
	address, err := url.Parse(dsn)
	if err != nil {
		return server{}, err
	}
	folder := address.Query().Get("host")
	bin, err := find(folder)
	if err != nil {
		return server{}, err
	}
	s := server{bin, folder, nil}
	if os.Getuid() == 0 {
		s.as, err = nobody()
	}
	return s, err
}

// Place returns an address on a server at which there is no database yet.
func Place(server string) string { return server + "&search_path=t" + strings.ToLower(rand.Text()) }

// SQL runs a statement like a program that does not use the engine, and returns its rows with columns separated by
// |. It connects past a pooler.
func SQL(ctx context.Context, address, statement string) (rows []string, err error) {
	c, err := pgconn.Connect(ctx, Direct(address))
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	results, err := c.Exec(ctx, statement).ReadAll()
	for _, result := range results {
		for _, row := range result.Rows {
			for i, field := range result.FieldDescriptions {
				if field.DataTypeOID == pgtype.BoolOID { // as in SQLite
					row[i] = map[string][]byte{"t": []byte("1"), "f": []byte("0")}[string(row[i])]
				}
			}
			rows = append(rows, string(bytes.Join(row, []byte("|"))))
		}
	}
	return rows, err
}

// ErrMissing means that no PostgreSQL server is installed.
var ErrMissing = errors.New("there is no PostgreSQL server: install Debian's package postgresql (`make database`)")

// find returns the folder with the programs of the server in a folder: its own, or Debian's newest.
func find(folder string) (string, error) {
	if bin := filepath.Join(folder, unpacked, "bin"); isThere(bin) {
		return bin, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return "", ErrMissing
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// memory returns a folder in memory if the system has one with enough space for a server and TMPDIR is not set, and
// otherwise "". A database has some 300 files, which take ten times longer to create and remove on a disk.
func memory() string {
	const shared, enough = "/dev/shm", 4 << 30
	var space syscall.Statfs_t
	if err := syscall.Statfs(shared, &space); os.Getenv("TMPDIR") != "" || err != nil ||
		space.Bavail*uint64(space.Bsize) < enough {
		return ""
	}
	return shared
}

func nobody() (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

type server struct {
	bin, folder string
	as          *syscall.Credential // nil: the user of the test
}

// newServer creates a folder for a server.
func newServer(version int) (s server, err error) {
	// t.TempDir is not suitable: its name contains the test's name and can be too long for a socket, and only its
	// owner can enter it.
	if s.folder, err = os.MkdirTemp(memory(), "postgres"); err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(s.folder)
		}
	}()
	if version > 0 {
		if err := unpack(version, s.folder); err != nil {
			return s, err
		}
	}
	if s.bin, err = find(s.folder); err != nil || os.Getuid() != 0 {
		return s, err
	}
	if s.as, err = nobody(); err != nil { // PostgreSQL does not start as root
		return s, err
	}
	return s, os.Chown(s.folder, int(s.as.Uid), int(s.as.Gid))
}

// start starts the server. settings are additional settings in the form of postgres's command line.
func (s server) start(settings string) error {
	options := "-c listen_addresses='' -c max_connections=500 " + settings + " -k '" + s.folder + "'"
	return s.run("pg_ctl", "-D", s.data(), "-w", "-l", s.log(), "-o", options, "start")
}

// address returns the address of a database for the superuser.
func (s server) address() string {
	return "postgres://postgres@/postgres?host=" + url.QueryEscape(s.folder)
}

func (s server) data() string { return filepath.Join(s.folder, "data") }
func (s server) log() string  { return filepath.Join(s.folder, "log") }

// stop ends the server if it is running.
func (s server) stop() error {
	if s.run("pg_ctl", "-D", s.data(), "status") != nil {
		return nil
	}
	return s.run("pg_ctl", "-D", s.data(), "-w", "-m", "immediate", "stop")
}

// run runs one of PostgreSQL's programs to its end. The output goes to a file, since a server that pg_ctl starts
// would keep a pipe open.
func (s server) run(program string, args ...string) error {
	output, err := os.CreateTemp("", program)
	if err != nil {
		return err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.folder, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(output.Name())
		log, _ := os.ReadFile(s.log())
		return fmt.Errorf("%s: %w\n%s%s", program, err, said, log)
	}
	return nil
}
