package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/storetest"
)

// add returns work that adds a row.
func add(key string) store.Job {
	return func(t *store.Transaction) error {
		return t.Run(`INSERT INTO settings (key, value, updated_at) VALUES (?, '', '')`, key)
	}
}

// opened creates a database at an address and opens it until the test ends.
func opened(t *testing.T, address string) store.Store {
	t.Helper()
	nothing := func(*store.Transaction) error { return nil }
	st, err := openAt(storetest.Options{Address: address, BusyTimeout: 10 * time.Second, Begin: nothing, End: nothing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if _, err := st.Create(); err != nil {
		t.Fatal(err)
	}
	return st
}

func write(st store.Store, w store.Work) error {
	return st.Write(&store.Request{Ctx: context.Background(), Work: w})
}

// count counts the rows with a key.
func count(t *testing.T, st store.Store, key string) (n int64) {
	t.Helper()
	err := st.Look(t.Context(), func(c *store.Conn) (err error) {
		n, err = c.Number(`SELECT count(*) FROM settings WHERE key = ?`, key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A server that ends its sessions, as in a restart, makes no request fail: unfinished transactions run again, and
// readers reconnect.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	st := opened(t, postgrestest.Place(server))
	end := func() {
		if _, err := postgrestest.SQL(t.Context(), server,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mailroom'`); err != nil {
			t.Error(err)
		}
	}
	for i := range 3 {
		key := fmt.Sprint("between ", i)
		if err := write(st, add(key)); err != nil {
			t.Errorf("a write after the sessions had ended: %v", err)
		}
		if n := count(t, st, key); n != 1 {
			t.Errorf("%s: %d rows", key, n)
		}
		end()
		// A reader that was in use just now loses its connection.
		_ = st.Look(t.Context(), func(c *store.Conn) error { _, err := c.Number(`SELECT 1`); return err })
	}
	runs := 0
	err := write(st, store.Job(func(tx *store.Transaction) error {
		if err := add("within")(tx); err != nil {
			return err
		}
		if runs++; runs == 1 {
			end()
		}
		return add("and after")(tx)
	}))
	if err != nil || runs != 2 || count(t, st, "within") != 1 || count(t, st, "and after") != 1 {
		t.Errorf("a write whose session ended: %v after %d runs", err, runs)
	}
}

// A reader whose session ends between two statements starts again in another snapshot, whatever it does with the
// error. Its results come from one snapshot.
func TestSessionEndsWithinARead(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	st := opened(t, postgrestest.Place(server))
	for _, passes := range []bool{true, false} { // whether fn returns the error
		key, runs := fmt.Sprint("passes ", passes), 0
		var before, after int64
		err := st.Read(t.Context(), func(c *store.Conn) (err error) {
			runs++
			if before, err = c.Number(`SELECT count(*) FROM settings WHERE key = ?`, key); err != nil {
				return err
			}
			if runs == 1 {
				if err := write(st, add(key)); err != nil {
					return err
				}
				endReaders(t, server)
			}
			if after, err = c.Number(`SELECT count(*) FROM settings WHERE key = ?`, key); passes {
				return err
			}
			return nil
		})
		if err != nil || runs != 2 || before != 1 || after != 1 {
			t.Errorf("%s: %v after %d runs, %d rows and then %d", key, err, runs, before, after)
		}
	}
}

// A reader whose session ends each time fails in the end.
func TestSessionEndsWithinEachRead(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	st := opened(t, postgrestest.Place(server))
	runs := 0
	err := st.Read(t.Context(), func(c *store.Conn) error {
		runs++
		endReaders(t, server)
		_, err := c.Number(`SELECT 1`)
		return err
	})
	if orchestrator.CodeOf(err) != orchestrator.Unavailable || runs < 2 {
		t.Errorf("%v after %d runs", err, runs)
	}
}

// endReaders ends the sessions that have a snapshot.
func endReaders(t *testing.T, server string) {
	t.Helper()
	if _, err := postgrestest.SQL(t.Context(), server, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'mailroom' AND state LIKE 'idle in%'`); err != nil {
		t.Error(err)
	}
}

// proxy forwards connections between a store and its server, and cuts them at a COMMIT.
type proxy struct {
	address string // of the database, through the proxy
	server  string // the socket

	mu  sync.Mutex
	cut string // once, "before" or "after" the server gets the COMMIT
	and func() // called when the connection is cut
}

func newProxy(t *testing.T, place string) *proxy {
	t.Helper()
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	p := &proxy{server: query.Get("host") + "/.s.PGSQL.5432"}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	query.Del("host")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = listener.Addr().String(), query.Encode()
	p.address = u.String()
	orchestrator.GoSafe("proxy", nil, func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			orchestrator.GoSafe("proxy", nil, func() { p.serve(client) })
		}
	})
	return p
}

func (p *proxy) arm(when string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = when
}

// fires reports whether to cut now. It does so once.
func (p *proxy) fires(when string, sent []byte) bool {
	p.mu.Lock()
	does := p.cut == when && bytes.Contains(sent, []byte("COMMIT"))
	if does {
		p.cut = ""
	}
	p.mu.Unlock()
	if does && p.and != nil {
		// Others connect through the proxy meanwhile: a server does not end while a client connects and sends
		// nothing.
		p.and()
	}
	return does
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var silent sync.Mutex // locked for ever once nothing is answered any more
	orchestrator.GoSafe("proxy", nil, func() {
		defer client.Close()
		for buffer := make([]byte, 64<<10); ; {
			n, err := server.Read(buffer)
			silent.Lock()
			if _, werr := client.Write(buffer[:n]); err != nil || werr != nil {
				return
			}
			silent.Unlock()
		}
	})
	for buffer := make([]byte, 64<<10); ; {
		n, err := client.Read(buffer)
		if err != nil || p.fires("before", buffer[:n]) {
			return
		}
		after := p.fires("after", buffer[:n])
		if after {
			silent.Lock()
		}
		if _, err := server.Write(buffer[:n]); err != nil || after {
			return
		}
	}
}

// If a connection is cut at the commit, the result is the server's outcome of the transaction, and nothing is done
// twice.
func TestCutAtTheCommit(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgrestest.Place(postgrestest.Start(t)))
	st := opened(t, p.address)
	p.arm("after")
	if err := write(st, add("after")); err != nil || count(t, st, "after") != 1 {
		t.Errorf("a commit that the server has made: %v, %d rows", err, count(t, st, "after"))
	}
	p.arm("before")
	if err := write(st, add("before")); err != nil || count(t, st, "before") != 1 {
		t.Errorf("a commit of which the server has not heard, run again: %v, %d rows", err, count(t, st, "before"))
	}
}

// A server that hangs accepts connections and does not answer. It does not delay the use of the others in the
// address.
func TestServerStandsStill(t *testing.T) {
	t.Parallel()
	still, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer still.Close()
	u, err := url.Parse(newProxy(t, postgrestest.Place(postgrestest.Start(t))).address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = still.Addr().String() + "," + u.Host
	st := opened(t, u.String()+"&connect_timeout=300")
	if err := write(st, add("meanwhile")); err != nil || count(t, st, "meanwhile") != 1 {
		t.Errorf("a write while the first server stands still: %v, %d rows", err, count(t, st, "meanwhile"))
	}
}

// An error about a request's own deadline is returned, and does not mean that the connection is lost.
func TestDeadlineOfTheWork(t *testing.T) {
	t.Parallel()
	st := opened(t, postgrestest.Place(postgrestest.Start(t)))
	runs := 0
	err := write(st, store.Job(func(*store.Transaction) error {
		runs++
		return context.DeadlineExceeded
	}))
	if runs != 1 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// A read that its caller gives up also ends on the server.
func TestReadGivenUp(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	st := opened(t, postgrestest.Place(server))
	const running = `SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep%'
		AND pid <> pg_backend_pid()`
	ctx, cancel := context.WithCancel(t.Context())
	orchestrator.GoSafe("giving up", nil, func() {
		until(t, server, running, "1")
		cancel()
	})
	err := st.Look(ctx, func(c *store.Conn) error {
		_, err := c.Number(`SELECT count(*) FROM pg_sleep(600)`)
		return err
	})
	if orchestrator.CodeOf(err) != orchestrator.CodeOf(store.GaveUp(ctx)) {
		t.Errorf("a read that was given up: %v", err)
	}
	until(t, server, running, "0")
}

// A ring arrives although the connection that was kept for ringing is lost.
func TestRingOnALostConnection(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	place := postgrestest.Place(server)
	a, b := opened(t, place), opened(t, place)
	rings, stop, err := b.Bell().Listen(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for range 3 {
		for len(rings) > 0 {
			<-rings
		}
		a.Bell().Ring("bob")
		select {
		case <-rings:
		case <-t.Context().Done():
			t.Fatal("not heard")
		}
		if _, err := postgrestest.SQL(t.Context(), server,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_notify%'`); err != nil {
			t.Fatal(err)
		}
	}
}
