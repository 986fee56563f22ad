// Package statements collects the statements that the engine prepares in a file, so that they can be checked on
// databases on which the test suites do not run. A test program that imports the package, as enginetest does, adds
// its statements if it is run with -statements. Run such programs one after another.
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

// file is the path of the file in this package's folder, which is the same for the tests of every package.
var file = func() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "statements.sql")
}()

// All returns the statements of the file, one per line.
func All() ([]string, error) {
	text, err := os.ReadFile(file)
	return strings.Split(strings.TrimSuffix(string(text), ";\n"), ";\n"), err
}

func init() { store.Prepared = note }

// note adds a statement to the file if the flag -statements is set. It is called for every prepared statement.
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

// keep adds a statement to the file, unless it is already there.
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

// ofTest reports whether the statement is prepared by a test or a package for tests.
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
