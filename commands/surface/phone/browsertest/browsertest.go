// Package browsertest provides real browsers for tests of the phone app, together with the environment of a browser
// on a person's machine: a desktop that shows notifications, and a push service. None of them requires a network.
//
// Everything that is started for a test ends with the test: processes are killed with their children and waited for,
// and servers are closed. Every wait is for an event. If the event does not happen, the test fails when its context
// ends, and prints what it waited for and the output of the programs. Except for a Shared browser, nothing here may
// be used by two tests, or from another goroutine than the test's own.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Patience is the maximum duration of a test with browsers. It is generous: a browser starts in two seconds on an
// idle machine, and in thirty on a busy one.
const Patience = 4 * time.Minute

// reserve is the part of the `go test -timeout` that a test keeps for printing what it waited for.
const reserve = 5 * time.Second

// Start checks that programs and shared libraries are installed, and returns the context of a test that uses them. If
// one is missing, Start skips the test, or fails it if CI is set: `make browsers` installs them.
func Start(t *testing.T, programs ...string) context.Context {
	t.Helper()
	var missing []string
	for _, name := range programs {
		if !installed(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		said := "not installed: " + strings.Join(missing, ", ") + "; `make browsers` does that"
		if os.Getenv("CI") != "" {
			t.Fatal(said)
		}
		t.Skip(said)
	}
	end := time.Now().Add(Patience)
	if all, limited := t.Deadline(); limited && all.Add(-reserve).Before(end) {
		end = all.Add(-reserve)
	}
	ctx, cancel := context.WithDeadline(t.Context(), end)
	t.Cleanup(cancel)
	return ctx
}

// installed reports whether a program, or a library that programs load on demand, is installed.
func installed(name string) bool {
	if !strings.Contains(name, ".so.") {
		_, err := exec.LookPath(name)
		return err == nil
	}
	cmd := exec.Command("sh", "-c", "ldconfig -p")
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/sbin:/usr/sbin")
	known, err := cmd.Output()
	return err == nil && strings.Contains(string(known), name)
}
