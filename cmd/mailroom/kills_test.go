package main

import (
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/kills"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

var (
	killReaders = flag.Int("kills", -1,
		"how many readers TestKilledReaders kills on each store; -1: with -short 120 on a file and 60 on a server, otherwise 1000")
	killsSeed    = flag.Uint64("kills-seed", 0, "seed of TestKilledReaders; 0 draws one")
	killsProgram = flag.String("kills-program", "",
		"path of the program whose readers are killed, instead of the one under test")
	killsAtDoors  = flag.String("kills-doors", "", "only doors whose names begin so")
	readersAtOnce = flag.Int("kills-readers", 4, "how many readers there are at once")
)

// TestKilledReaders is the short form of `make kills`: readers are killed with SIGKILL at random moments, at every
// door in turn. Messages marked as read were shown to a reader, and messages of a dead reader are unread again when
// the next one looks.
func TestKilledReaders(t *testing.T) {
	t.Parallel()
	for store, place := range map[string]func(*testing.T) string{
		"file":   func(*testing.T) string { return "" },
		"server": func(t *testing.T) string { return postgrestest.Place(postgrestest.Start(t)) },
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			report, folder := killed(t,
				kills.Config{Kills: numberOfKills(store), Program: []string{"mailroom-unguarded"}, Database: place(t),
					Doors: *killsAtDoors})
			t.Log(report.String())
			for _, problem := range report.Problems() {
				t.Error(problem)
			}
			for _, d := range report.Doors {
				if d.Kills+d.Late == 0 && report.Kills > 0 {
					t.Errorf("%s: nobody read there", d.Name)
				}
			}
			if t.Failed() {
				t.Logf("again with: go test ./cmd/mailroom -run '^TestKilledReaders$' -kills %d -kills-seed %d\nthe folder of the run is %s", report.Kills, report.Seed, folder)
				return
			}
			os.RemoveAll(folder)
		})
	}
}

func numberOfKills(store string) int {
	switch {
	case *killReaders >= 0:
		return *killReaders
	case testing.Short() && store == "server": // where each process must connect first
		return 60
	}
	return helper.Times(1000)
}

// killed performs a run in a folder that is kept.
func killed(t *testing.T, c kills.Config) (kills.Report, string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "mailroom-kills-")
	if err != nil {
		t.Fatal(err)
	}
	c.Folder, c.Readers, c.Log = folder, *readersAtOnce, t.Output()
	if c.Seed = *killsSeed; c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if *killsProgram != "" {
		c.Program = []string{*killsProgram}
	}
	report, err := kills.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%v (seed %d, in %s)", err, c.Seed, folder)
	}
	return report, folder
}

// rash is the program with a planted bug: an answer counts as written before any reader has it. The output of a
// command goes into a pipe that the process itself empties. The process passes it on only after another period as
// long as the command took, so that half of the kills are between the mark and the answer.
func rash() {
	if slices.Contains([]string{"send", "serve"}, os.Args[1]) { // their answers are needed immediately
		os.Exit(run(config()))
	}
	out := os.Stdout
	in, theirs, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	os.Stdout = theirs
	text := make(chan []byte, 1)
	go func() {
		content, _ := io.ReadAll(in) // whatever was written
		text <- content
	}()
	start := time.Now()
	status := run(config())
	theirs.Close()
	<-time.After(time.Since(start))
	if _, err := out.Write(<-text); err != nil {
		status = 1
	}
	os.Exit(status)
}

// TestKilledReadersFindsPlantedBug tests the harness: it must detect a program that marks messages as read before it
// has written them.
func TestKilledReadersFindsPlantedBug(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"read", "ralph inbox", "thread show"} {
		t.Run(door, func(t *testing.T) {
			if door != "read" {
				helper.Long(t)
			}
			t.Parallel()
			for range 5 { // if other tests use the machine, an answer may take longer than measured
				report, folder := killed(t, kills.Config{Kills: 40, Program: []string{"mailroom-rash"}, Doors: door})
				t.Log(report.String())
				os.RemoveAll(folder)
				if len(report.Unseen) > 0 {
					return
				}
			}
			t.Error("nothing is marked as read that nobody was shown")
		})
	}
}
