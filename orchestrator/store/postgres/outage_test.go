package postgres_test

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// opens opens a database at an address, with a log.
func opens(t *testing.T, address string, log slog.Handler) store.Store {
	t.Helper()
	nothing := func(*store.Transaction) error { return nil }
	s, err := postgres.Open(postgres.Options{DSN: address, Log: slog.New(log), BusyTimeout: time.Minute, Begin: nothing,
		End: nothing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestOneStandsStill uses a server that accepts connections and does not answer, and a standby that takes its place
// after the standby was asked. A caller that waits for the first server, which may never answer, continues with the
// other one.
func TestOneStandsStill(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	place := postgrestest.Place(server)
	initAt(t, place)
	standby := postgrestest.Standby(t, server, "one")
	until(t, server, `SELECT state FROM pg_stat_replication`, "streaming")
	sockets, err := filepath.Glob(filepath.Join(hostOf(t, server), ".s.PGSQL.*[0-9]"))
	if err != nil || len(sockets) != 1 {
		t.Fatal(sockets, err)
	}
	still, err := os.MkdirTemp("", "still") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(still)
	l, err := net.Listen("unix", filepath.Join(still, filepath.Base(sockets[0])))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	s := opens(t, strings.Replace(place, url.QueryEscape(hostOf(t, server)),
		url.QueryEscape(hostOf(t, standby)+","+still), 1)+"&connect_timeout=3600", slog.DiscardHandler)
	written := make(chan error)
	go func() { written <- write(s, add("after")) }()
	c, err := l.Accept() // the standby was asked before
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := postgrestest.SQL(t.Context(), standby, `SELECT pg_promote()`); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// said is a log handler that keeps its lines.
type said struct {
	mu    sync.Mutex
	lines []string
	first chan struct{} // closed by the first line
}

func (l *said) Enabled(context.Context, slog.Level) bool { return true }
func (l *said) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *said) WithGroup(string) slog.Handler            { return l }
func (l *said) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines = append(l.lines, r.Message); len(l.lines) == 1 {
		close(l.first)
	}
	return nil
}

// The log contains an outage and its end once, however many goroutines find out.
func TestOutageIsLogged(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	place := postgrestest.Place(server)
	initAt(t, place)
	log := &said{first: make(chan struct{})}
	s := opens(t, place, log)
	if err := write(s, add("before")); err != nil {
		t.Fatal(err)
	}
	postgrestest.Stop(t, server)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := s.Look(t.Context(), func(c *store.Conn) error {
				_,
					err := c.Number(`SELECT 1`)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Go(func() {
		if err := write(s, add("during")); err != nil {
			t.Error(err)
		}
	})
	<-log.first
	postgrestest.Again(t, server)
	all.Wait()
	log.mu.Lock()
	defer log.mu.Unlock()
	want.Rows(t, log.lines, "cannot reach the server of the database", "the server of the database is available again")
}
