// Package statements keeps the statements that the engine prepares in a file, so that each can be held to databases
// which the suites do not run on. A test program that imports it, as enginetest does, adds what it prepares when it is
// run with -statements. Programs run one after another then.
package statements

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

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

func init() { store.Prepared = note }

// note adds a statement to the file, if this run is asked to. It is called by whatever prepares a statement.
func note(text string) {
	if !*add || ofTest() {
		return
	}
	if err := keep(strings.Join(strings.Fields(text), " ")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var (
	keeping sync.Mutex
	kept    map[string]bool // the statements of the file; nil before the first is added
)

// keep adds a statement to the file, unless it is there already.
func keep(text string) error {
	keeping.Lock()
	defer keeping.Unlock()
	if kept == nil {
		list, err := All()
		if err != nil {
			return err
		}
		kept = map[string]bool{}
		for _, known := range list {
			kept[known] = true
		}
	}
	if kept[text] {
		return nil
	}
	kept[text] = true
	delete(kept, "")
	return os.WriteFile(file, []byte(strings.Join(slices.Sorted(maps.Keys(kept)), ";\n")+";\n"), 0o666)
}

// ofTest reports whether a test, or a package for tests, prepares a statement of its own.
func ofTest() bool {
	pcs := make([]uintptr, 8)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !strings.HasSuffix(frame.File, "conn.go") {
			return strings.HasSuffix(frame.File, "_test.go") || strings.HasSuffix(filepath.Dir(frame.File), "test")
		}
		if !more {
			return false
		}
	}
}
