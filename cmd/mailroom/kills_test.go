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

// TestKilledReaders is the short form of `make kills`: readers are killed with SIGKILL at random moments, by every door
// in turn. What is marked as read was shown to somebody, and what a dead reader had is unread again when the next one
// looks.
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
	case testing.Short() && store == "server": // where each process has to connect first
		return 60
	}
	return helper.Times(1000)
}

// killed makes a run in a folder that stays.
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

// rash is the program with a bug planted: an answer counts as written before anybody has it. What a command writes goes
// into a pipe that the process itself empties, and out of it only as long after the command has ended as the command
// took: half of the moments at which a reader is killed are then between the mark and the answer.
func rash() {
	if slices.Contains([]string{"send", "serve"}, os.Args[1]) { // their answers are needed at once
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
		content, _ := io.ReadAll(in) // what there is of it is written
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

// TestKilledReadersFindsPlantedBug tests the harness: a program that marks as read before it has written is found out.
func TestKilledReadersFindsPlantedBug(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"read", "ralph inbox", "thread show"} {
		t.Run(door, func(t *testing.T) {
			if door != "read" {
				helper.Long(t)
			}
			t.Parallel()
			for range 5 { // where other tests use the machine, an answer may take longer than the one that was measured
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
