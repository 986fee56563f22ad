// Package statements keeps the statements that the engine prepares in a file, so that each can be held to databases which
// the suites do not run on.
package statements

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom/orchestrator/store"
)

var add = flag.Bool("statements", false, "add the statements that this run prepares to statements.sql")

// file is in this folder, where the tests of every package find it.
var file = func() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "statements.sql")
}()

// All returns the statements of the file, each in one line.
func All() ([]string, error) {
	text, err := os.ReadFile(file)
	return strings.Split(strings.TrimSuffix(string(text), ";\n"), ";\n"), err
}

// Main runs the tests of a package, for its TestMain, and returns the status to exit with. It says which statements they
// prepared that are not in the file. That is no failure, since it can depend on the time that something took: TestComplete
// fails for a statement of which no form is in the file.
func Main(m *testing.M) int {
	before, err := All()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	known := map[string]bool{}
	for _, text := range before {
		known[text] = true
	}
	var mu sync.Mutex
	var missing []string
	store.Prepared = func(text string) {
		text = strings.Join(strings.Fields(text), " ")
		mu.Lock()
		defer mu.Unlock()
		if !known[text] && !ofTest() {
			known[text] = true
			missing = append(missing, text)
		}
	}
	code := m.Run()
	mu.Lock()
	defer mu.Unlock()
	switch {
	case len(missing) == 0:
	case *add:
		if err := write(append(before, missing...)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	default:
		fmt.Printf("%d statements are not in orchestratortest/statements/statements.sql (add them with -statements):\n%s\n",
			len(missing), strings.Join(missing, "\n"))
	}
	return code
}

// ofTest reports whether a test prepares a statement of its own.
func ofTest() bool {
	pcs := make([]uintptr, 8)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if name := filepath.Base(frame.File); !strings.HasSuffix(name, "conn.go") {
			return strings.HasSuffix(name, "_test.go")
		}
		if !more {
			return false
		}
	}
}

func write(list []string) error {
	slices.Sort(list)
	list = slices.Compact(slices.DeleteFunc(list, func(text string) bool { return text == "" }))
	return os.WriteFile(file, []byte(strings.Join(list, ";\n")+";\n"), 0o666)
}
