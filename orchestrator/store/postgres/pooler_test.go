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

// modes are the modes of a pooler that support transactions.
var modes = []string{"transaction", "session"}

// TestPoolerPromises checks the promises of package store behind pgbouncer. Without a way past the pooler, processes
// only poll for work.
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

// TestPoolerCrowd runs all operations at once behind pgbouncer, and follows the trace.
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

// Poolers that are configured to ignore all settings are recognized all the same.
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

// TestPoolerChecked checks the doctor's findings about a pooler.
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

// If the way past the pooler leads to another database, the process receives no notifications and shows no signs of
// life there. It logs the error and polls.
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

// A pooler that does not support transactions is refused.
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

// TestPoolerRestarts kills pgbouncer again and again while two processes write. Each write is answered and is in the
// database. Each key can be written only once, so a write that runs twice fails.
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

// TestPoolerOnThePage compares the configuration that the page recommends with that of these tests.
func TestPoolerOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```ini\n"+postgrestest.PoolerConfig+"```\n") {
		t.Errorf("docs/postgres.md does not show\n%s", postgrestest.PoolerConfig)
	}
}
