package postgres_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/storetest"
)

// holder returns a process that is alive and has a lease, and the lease's token.
func holder(t *testing.T, address string) (p *helper.Process, token string) {
	t.Helper()
	p = storetest.Holder(t, address)
	if token = <-p.Lines; token == "id" {
		t.Fatal("the token of a lease names no process")
	}
	return p, token
}

// wait waits until a condition is true.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !is(); orchestrator.Pause(t.Context(), 20*time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal(what)
		}
	}
}

// killed kills a process that has a lease, and waits until that lease is over. The leases of living processes
// continue.
func killed(t *testing.T, st store.Store, address string, living ...string) {
	t.Helper()
	dead, token := holder(t, address)
	dead.Kill()
	wait(t, "the lease of a process that was killed is not over", func() bool {
		for _, other := range living {
			if st.Gone(other) {
				t.Error("the lease of a process that lives is over")
			}
		}
		return st.Gone(token)
	})
}

// A server that is restarted, as after a crash, drops the locks of all processes. Living processes lose no lease.
func TestRestartLosesNoLease(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	address := postgrestest.Place(server)
	st := opened(t, address)
	_, token := holder(t, address)
	killed(t, st, address, token)
	for range 2 {
		postgrestest.Stop(t, server)
		if st.Gone(token) {
			t.Error("a server that cannot be asked says that somebody is dead")
		}
		postgrestest.Again(t, server)
		killed(t, st, address, token)
	}
}

// Connections that are cut again and again cause no loss of a lease: neither those of the holder, nor those of the
// process that looks for signs.
func TestCutLosesNoLease(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	address := postgrestest.Place(server)
	st := opened(t, address)
	p, token := holder(t, address)
	for range 3 {
		if _, err := postgrestest.SQL(t.Context(), server,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mailroom'`); err != nil {
			t.Fatal(err)
		}
		killed(t, st, address, token)
	}
	p.Stop()
	killed(t, st, address, token) // the beats are too old by now; the lock remains
	p.Kill()
	wait(t, "the lease of a process that was killed at last is not over", func() bool { return st.Gone(token) })
}

// A process is not dead if a token does not name it, nor if it is this process.
func TestTokensOfNobody(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	st := opened(t, address)
	own := st.Token("id")
	unknown := []string{"", "id", "-", "pulse.", "pulse.12-id", "pulse.zzzzzzzzzzzzzzzz-id", "1234567890abcdef-id",
		own[:len(own)-3], own}
	killed(t, st, address, unknown...)
}

// A transaction that takes a lease waits only for the first beat, and never for a look at the signs of others, since
// the server ends a transaction that is idle for long.
func TestNoLeaseWaitsForABeat(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	st := opened(t, address)
	st.Token("id")
	_, others := holder(t, address)
	other := postgrestest.Connect(t, address)
	other.Run(`BEGIN; SELECT FROM pulse FOR UPDATE`)
	beat := func() string { // the beat of st that other blocks, and its time
		rows, err := postgrestest.SQL(t.Context(), address, `SELECT pid, query_start FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO pulse%' AND application_name = 'mailroom'
				ORDER BY query_start`)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(rows, " ")
	}
	wait(t, "each lease waits for a beat", func() bool {
		before := beat()
		st.Token("id")
		st.Gone(others)
		return strings.Count(before, "|") == 2 && beat() == before
	})
}

// A process that cannot reach the server notices when others may consider it dead, and when they no longer do.
func TestKnown(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	st := opened(t, postgrestest.Place(server))
	st.Token("id")
	known := st.Alive()
	if known.Err() != nil {
		t.Fatal("a process that has just beaten is not known")
	}
	postgrestest.Stop(t, server)
	<-known.Done()
	if st.Alive().Err() == nil {
		t.Error("whoever begins now does not hear of it")
	}
	postgrestest.Again(t, server)
	wait(t, "a process whose server is back is not known", func() bool { return st.Alive().Err() == nil })
}
