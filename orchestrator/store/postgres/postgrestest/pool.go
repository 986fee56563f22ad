package postgrestest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Pool starts a pgbouncer, Debian's, before a server of Start's until the test ends, with a mode such as transaction, and returns the
// address of a database through it. Without pgbouncer it skips the test; with CI set it fails it.
func Pool(t testing.TB, server, mode string) string {
	t.Helper()
	program := "/usr/sbin/pgbouncer"
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no pgbouncer: install Debian's package pgbouncer (`make cluster`)")
	}
	s, err := serverOf(server)
	if err != nil {
		t.Fatal(err)
	}
	place, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := place.Addr().(*net.TCPAddr).Port
	place.Close()
	files := map[string]string{"users": "\"postgres\" \"\"\n\"mailroom_audit\" \"\"\n"}
	name := func(kind string) string { return filepath.Join(s.folder, fmt.Sprintf("pool%d.%s", port, kind)) }
	files["ini"] = fmt.Sprintf("[databases]\n* = host=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n"+
		"pool_mode = %s\nmax_client_conn = 500\ndefault_pool_size = 200\nserver_login_retry = 1\n", s.folder, port, name("users"), mode)
	for kind, text := range files {
		if err := os.WriteFile(name(kind), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-q", name("ini"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Del("host")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = fmt.Sprintf("127.0.0.1:%d", port), query.Encode()
	for range 100 {
		if _, err = SQL(t.Context(), u.String(), "SELECT 1"); err == nil {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u.String()
}
