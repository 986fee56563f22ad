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

// tortureFor is how long TestTortureOnAServer goes on.
var tortureFor = flag.Duration("torture-for", 30*time.Second, "how long TestTortureOnAServer goes on")

// TestTortureOnAServer does the same to processes on a PostgreSQL server, three machines' worth, which is restarted meanwhile as after
// a power failure. A command may find that it cannot have the database; what was acknowledged is held to all promises.
func TestTortureOnAServer(t *testing.T) {
	seed := *tortureSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	server := postgrestest.Start(t)
	report, folder := tortured(t, torture.Config{
		Seed: seed, For: *tortureFor, Database: postgrestest.Place(server), Restart: func() error { return postgrestest.Restart(server) }, Log: t.Output(),
	})
	for _, problem := range report.Problems() {
		t.Error(problem)
	}
	if report.Kills == 0 || report.Crashed == 0 || report.Climbed == 0 || report.Handed == 0 || report.Restarts == 0 {
		t.Errorf("%d kills, %d leases lost, %d failed attempts, %d messages read, %d restarts: something was not put to the test",
			report.Kills, report.Crashed, report.Climbed, report.Handed, report.Restarts)
	}
	t.Logf("%d kills, %d restarts, %d sends acknowledged, %d left open, %d commands turned away, %d leases lost, %d deliveries into inboxes", report.Kills,
		report.Restarts, report.Acknowledged, report.Unsure, report.TurnedAway, report.Crashed, report.Deliveries["inbox"])
	if t.Failed() {
		t.Logf("again with: go test ./cmd/mailroom -run '^TestTortureOnAServer$' -torture-seed %d\nthe files and the history are in %s", seed, folder)
		return
	}
	os.RemoveAll(folder)
}
