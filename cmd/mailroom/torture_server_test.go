//go:build postgres

package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/torture"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// tortureFor is the duration of a torture run on a server.
var tortureFor = flag.Duration("torture-for", 30*time.Second, "how long torture on a server goes on")

// TestTortureOnAServer runs the torture with the processes of three machines on a PostgreSQL server, which restarts
// meanwhile as after a power failure. A command may fail because the database is unavailable, but every promise must
// hold for what was acknowledged.
func TestTortureOnAServer(t *testing.T) {
	report := tortureOnAServer(t, true, func(server string) (address string, restart func() error) {
		return server, func() error { return postgrestest.Restart(server) }
	})
	if report.Crashed == 0 || report.Climbed == 0 {
		t.Errorf("%d leases lost, %d failed attempts: something was not put to the test", report.Crashed,
			report.Climbed)
	}
}

// TestTortureBehindAPooler runs the torture behind pgbouncer, which is killed and restarted instead of the server.
func TestTortureBehindAPooler(t *testing.T) {
	tortureOnAServer(t, false, func(server string) (address string, restart func() error) {
		pool := postgrestest.Pool(t, server, "transaction")
		return pool.Past(server), pool.Restart
	})
}

func tortureOnAServer(t *testing.T, undoes bool, way func(server string) (address string, restart func() error)) torture.Report {
	t.Helper()
	c := torture.Config{Seed: *tortureSeed, For: *tortureFor, Undoes: undoes, Log: t.Output()}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	address, restart := way(postgrestest.Start(t))
	c.Database, c.Restart = postgrestest.Place(address), restart
	report, folder := tortured(t, c)
	for _, problem := range report.Problems() {
		t.Error(problem)
	}
	if report.Kills == 0 || report.Handed == 0 || report.Restarts == 0 {
		t.Errorf("%d kills, %d messages read, %d restarts: something was not put to the test", report.Kills,
			report.Handed, report.Restarts)
	}
	t.Logf("%d kills, %d restarts, %d sends acknowledged, %d left open, %d commands turned away, %d leases lost, %d deliveries into inboxes, %d records of a reading undone", report.Kills,
		report.Restarts, report.Acknowledged, report.Unsure, report.TurnedAway, report.Crashed,
		report.Deliveries["inbox"], report.Undone)
	if t.Failed() {
		t.Logf("again with: go test -tags postgres ./cmd/mailroom -run '^%s$' -torture-seed %d\nthe files and the history are in %s", t.Name(), c.Seed, folder)
		return report
	}
	os.RemoveAll(folder)
	return report
}
