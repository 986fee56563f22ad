package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/torture"
)

// tortureSeed is the seed with which TestTorture repeats a run.
var tortureSeed = flag.Uint64("torture-seed", 0, "seed of TestTorture; 0 draws one")

// TestTorture is the short form of `make torture`. For half a minute, senders, daemons, readers and cleaners are
// killed with SIGKILL or stopped and lose a folder, while a command and a web server succeed, fail or are slow.
// Afterwards, everything that was reported to anyone must be true.
func TestTorture(t *testing.T) {
	t.Parallel()
	seed := *tortureSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	report, folder := tortured(t, torture.Config{Seed: seed, For: 30 * time.Second})
	for _, problem := range report.Problems() {
		t.Error(problem)
	}
	if report.Kills == 0 || report.Crashed == 0 || report.Climbed == 0 || report.Handed == 0 {
		t.Errorf("%d kills, %d leases lost, %d failed attempts, %d messages read: something was not put to the test",
			report.Kills, report.Crashed, report.Climbed, report.Handed)
	}
	if report.Deliveries["dir"] == 0 || report.Deliveries["exec"] == 0 || report.Deliveries["webhook"] == 0 {
		t.Errorf("deliveries by transport: %v: something was not put to the test", report.Deliveries)
	}
	t.Logf("%d kills, %d sends acknowledged, %d leases lost", report.Kills, report.Acknowledged, report.Crashed)
	if t.Failed() {
		t.Logf("again with: go test ./cmd/mailroom -run '^TestTorture$' -torture-seed %d\n"+
			"or longer: make torture SEED=%d\nthe database, the files and the history are in %s", seed, seed, folder)
		return
	}
	os.RemoveAll(folder)
}

// tortured runs the torture in a folder that is kept.
func tortured(t *testing.T, c torture.Config) (torture.Report, string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "mailroom-torture-")
	if err != nil {
		t.Fatal(err)
	}
	c.Folder, c.Program, c.Helper = folder, []string{"mailroom-unguarded"}, []string{"torture-helper"}
	report, err := torture.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return report, folder
}
