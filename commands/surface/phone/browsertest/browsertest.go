// Package browsertest gives tests of the phone app real browsers, and around them what a browser finds on a person's
// machine: a desktop that shows notifications, and a push service. Nothing of it needs a network.
//
// All that is started for a test ends with it: processes are killed with their children and waited for, servers are closed.
// Every wait is for an event; a test that waits for what does not come fails when its context ends, and says what it
// waited for and what the programs printed. Nothing here but a Shared browser may be used by two tests, or from another goroutine
// than the test's own.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test with browsers may take in all. It is generous: a browser starts in two seconds on an idle
// machine, and in thirty on a busy one.
const Patience = 4 * time.Minute

// reserve is what a test keeps of the time that `go test -timeout` gives all of them, to say what it waited for.
const reserve = 5 * time.Second

// Start makes sure that programs and shared libraries are installed, and returns the context of a test that uses them.
// Without them the test is skipped, but fails where CI is set: `make browsers` installs them.
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

// installed looks for a program, or for a library that programs load when they need it.
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
