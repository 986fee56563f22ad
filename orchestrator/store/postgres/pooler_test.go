package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/storetest"
)

// modes are those of a pooler in which there are transactions.
var modes = []string{"transaction", "session"}

// TestPoolerPromises holds this store to what package store promises of every one, behind pgbouncer. Without a way past
// it, processes only look whether there is something for them.
func TestPoolerPromises(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	for _, mode := range modes {
		pool := postgrestest.Pool(t, server, mode)
		t.Run(mode+" and a way past it", func(t *testing.T) {
			storetest.Exercise(t, func(testing.TB) string { return postgrestest.Place(pool.Past(server)) }, openAt)
		})
		t.Run(mode, func(t *testing.T) {
			storetest.Exercise(t, func(testing.TB) string { return postgrestest.Place(pool.Address) }, openAt,
				storetest.RingNames)
		})
	}
}

// TestPoolerCrowd has everything done at once, and the trace followed, behind pgbouncer.
func TestPoolerCrowd(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	for _, mode := range modes {
		pool := postgrestest.Pool(t, server, mode)
		t.Run(mode, func(t *testing.T) {
			manyAtOnce(t, pool.Past(server))
			followBesideEngines(t, pool.Past(server))
		})
	}
}

// Poolers that are told to take all settings leave them out. They are recognized all the same.
func TestPoolerTakesAnySettings(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	server := postgrestest.Start(t)
	pool := postgrestest.Pool(t, server, "transaction",
		"ignore_startup_parameters = client_min_messages, default_transaction_isolation, enable_bitmapscan, enable_hashjoin, "+
			"enable_mergejoin, enable_seqscan, idle_in_transaction_session_timeout, jit, lock_timeout, plan_cache_mode, search_path, statement_timeout, tcp_user_timeout, extra_float_digits")
	address := postgrestest.Place(pool.Address)
	st, other := opened(t, address), opened(t, address)
	for n := range 5 {
		for name, st := range map[string]store.Store{"one": st, "other": other} {
			key := fmt.Sprint(name, n)
			if err := write(st, add(key)); err != nil || count(t, st, key) != 1 {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// TestPoolerChecked has doctor say what stands before the server.
func TestPoolerChecked(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	careless := []string{"settings: problem fsync is off", "acknowledged: problem synchronous_commit is off"}
	for _, mode := range modes {
		pool := postgrestest.Pool(t, server, mode)
		place := postgrestest.Place("")
		initAt(t, server+place)
		for way, finding := range map[string]string{
			server: "ok", pool.Address: "problem the address in `direct` is also the address of a pooler",
			server + "&port=1": "problem cannot reach the server at the address in `direct`", "": "note four times a second",
		} {
			address := pool.Address + place
			if way != "" {
				address += "&direct=" + url.QueryEscape(way)
			}
			finds(t, address, append(careless, "pooler: "+finding)...)
		}
		finds(t, pool.Past(server)+place, append(careless, "pooler: ok through a pooler ("+mode+" mode)")...)
	}
}

// An address whose way past the pooler leads to another database hears nothing there, and shows no life there: it is
// told, and looks by itself.
func TestDirectLeadsElsewhere(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	place := postgrestest.Place("")
	initAt(t, server+place)
	other := strings.Replace(server, "/postgres?", "/other?", 1)
	for _, made := range []bool{false, true} {
		if made {
			initAt(t, other+place)
		} else if _, err := postgrestest.SQL(t.Context(), server, "CREATE DATABASE other"); err != nil {
			t.Fatal(err)
		}
		address := server + place + "&direct=" + url.QueryEscape(other)
		finds(t, address, "settings: problem fsync is off", "acknowledged: problem synchronous_commit is off",
			"pooler: problem points to another database")
		s := at(t, address)
		if token := s.Token("an-id"); token != "an-id" {
			t.Errorf("the token of a lease is %s", token)
		}
		rings, stop, err := s.Bell().Listen(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			<-rings
		}
		stop()
		if beats, err := postgrestest.SQL(t.Context(), other+place, "SELECT count(*) FROM pulse"); made &&
			(err != nil || beats[0] != "0") {
			t.Errorf("%s beats in the other database, %v", beats, err)
		}
	}
}

// A pooler without transactions is refused.
func TestPoolerOfStatements(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	pool := postgrestest.Pool(t, postgrestest.Start(t), "statement")
	st, err := openAt(storetest.Options{Address: postgrestest.Place(pool.Address), BusyTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Create(); orchestrator.CodeOf(err) != orchestrator.Unavailable ||
		!strings.Contains(err.Error(), "pool_mode = statement") {
		t.Errorf("it says %v", err)
	}
}

// TestPoolerRestarts kills pgbouncer again and again while two processes write: each write is answered, and each is
// there. Its key can be written once only, so that a write that is done twice fails.
func TestPoolerRestarts(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	server := postgrestest.Start(t)
	for _, mode := range modes {
		pool := postgrestest.Pool(t, server, mode)
		address := postgrestest.Place(pool.Past(server))
		st := opened(t, address)
		writers := []*helper.Process{storetest.Writer(t, address), storetest.Writer(t, address)}
		var want []string
		for n := range 25 {
			restarted := make(chan error, 1)
			go func() {
				orchestrator.Pause(t.Context(), rand.N(20*time.Millisecond))
				restarted <- pool.Restart()
			}()
			for i, w := range writers {
				want = append(want, fmt.Sprintf("%02d-%d", n, i))
				w.Say(want[len(want)-1])
			}
			for i, w := range writers {
				w.Expect(fmt.Sprintf("wrote %02d-%d <nil>", n, i))
			}
			if err := <-restarted; err != nil {
				t.Fatal(err)
			}
		}
		got, err := postgrestest.SQL(t.Context(), address,
			`SELECT substr(key, 11) FROM settings WHERE key LIKE 'storetest.%' ORDER BY key`)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, the rows are %v", mode, err, got)
		}
		if err := st.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestPoolerOnThePage compares the configuration that the page advises with that of these tests.
func TestPoolerOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```ini\n"+postgrestest.PoolerConfig+"```\n") {
		t.Errorf("docs/postgres.md does not show\n%s", postgrestest.PoolerConfig)
	}
}
