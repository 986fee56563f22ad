package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Pooler is a pgbouncer, as packaged by Debian, in front of a server that Start or Run started.
type Pooler struct {
	Address string // of the server, through the pooler; parameters can be added with &

	config string // path of the configuration file
	as     *syscall.Credential
	cmd    *exec.Cmd
}

// PoolerConfig is the configuration that docs/postgres.md recommends.
const PoolerConfig = `[databases]
mail = host=db.example
[pgbouncer]
listen_addr = *
listen_port = 6432
auth_type = scram-sha-256
auth_file = /etc/pgbouncer/userlist.txt
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 60
server_login_retry = 1
`

// ErrNoPooler means that pgbouncer is not installed.
var ErrNoPooler = errors.New("there is no pgbouncer: install Debian's package pgbouncer (`make database`)")

const pgbouncer = "/usr/sbin/pgbouncer"

// Pool starts a pooler with the recommended configuration, except for the mode, and with additional lines, until the
// test ends. Without pgbouncer it skips the test, or fails the test if CI is set.
func Pool(t testing.TB, server, mode string, lines ...string) *Pooler {
	t.Helper()
	p, err := RunPool(t.Context(), server, mode, lines...)
	if errors.Is(err, ErrNoPooler) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// RunPool starts a pooler for programs, which must call Kill at the end.
func RunPool(ctx context.Context, server, mode string, lines ...string) (*Pooler, error) {
	if _, err := os.Stat(pgbouncer); err != nil {
		return nil, ErrNoPooler
	}
	s, err := serverOf(server)
	if err != nil {
		return nil, err
	}
	place, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(place.Addr().(*net.TCPAddr).Port)
	place.Close()
	users := filepath.Join(s.folder, "pooler"+port+".users")
	p := &Pooler{config: filepath.Join(s.folder, "pooler"+port+".ini"), as: s.as}
	config := strings.NewReplacer("mail = host=db.example", "* = host="+s.folder, "listen_addr = *",
		"listen_addr = 127.0.0.1", "6432", port, "scram-sha-256", "trust",
		"/etc/pgbouncer/userlist.txt", users, "pool_mode = transaction", "pool_mode = "+mode).Replace(PoolerConfig) +
		"unix_socket_dir =\n" + strings.Join(lines, "\n") + "\n"
	for file, text := range map[string]string{p.config: config, users: "\"postgres\" \"\"\n\"mailroom_audit\" \"\"\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	query.Del("host")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = "127.0.0.1:"+port, query.Encode()
	p.Address = u.String()
	return p, p.start(ctx)
}

// start starts the pooler and returns when the pooler accepts clients.
func (p *Pooler) start(ctx context.Context) (err error) {
	p.cmd = exec.Command(pgbouncer, "-q", p.config)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	for range 200 {
		if _, err = SQL(ctx, p.Address, ""); err == nil {
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
	p.Kill()
	return fmt.Errorf("pgbouncer does not answer: %w", err)
}

// Kill ends the pooler without notice to its clients.
func (p *Pooler) Kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// Restart kills the pooler and starts it again.
func (p *Pooler) Restart() error {
	p.Kill()
	return p.start(context.Background())
}

// Past returns an address through the pooler that also contains the way past it.
func (p *Pooler) Past(server string) string { return p.Address + "&direct=" + url.QueryEscape(server) }

// Direct returns the address past a pooler, for a program that does not support such addresses. If address contains
// no way past a pooler, Direct returns address.
func Direct(address string) string {
	u, err := url.Parse(address)
	if err != nil || !u.Query().Has("direct") {
		return address
	}
	past, err := url.Parse(u.Query().Get("direct"))
	if err != nil {
		return address
	}
	query := past.Query()
	query.Set("search_path", u.Query().Get("search_path"))
	past.RawQuery = query.Encode()
	return past.String()
}
