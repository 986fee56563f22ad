package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json`. Source: go doc test2json.
type event struct{ Action, Package, Test, Output string }

// watch follows the events of one run.
type watch struct {
	still   time.Duration
	out     io.Writer
	began   time.Time
	done    int
	under   int                  // packages that are running
	running map[string]time.Time // running tests, as "package test", and when they last showed activity
	paused  map[string]bool      // tests that wait for a free parallel slot
	longest time.Duration        // the longest time for which a test showed no activity
	silent  string               // the test with that time
	said    map[string][]string  // the output of tests and packages that have not ended
}

func newWatch(out io.Writer, still time.Duration) *watch {
	return &watch{still: still, out: out, began: time.Now(), running: map[string]time.Time{}, paused: map[string]bool{},
		said: map[string][]string{}}
}

// hear processes one line of output.
func (w *watch) hear(line []byte, now time.Time) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(w.out, "%s", line) // output of go itself
		return
	}
	name := strings.TrimSpace(e.Package + " " + e.Test)
	if e.Test != "" {
		w.sign(e.Package, e.Test, now)
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(w.out, e.Output)
	case "start":
		w.under++
	case "run", "cont":
		w.running[name] = now
		delete(w.paused, name)
	case "pause":
		w.paused[name] = true
		delete(w.running, name)
	case "output":
		w.said[name] = append(w.said[name], e.Output)
	case "pass", "fail", "skip":
		w.end(&e, name)
	}
}

// sign records activity of a test and of the tests that contain it.
func (w *watch) sign(pkg, test string, now time.Time) {
	for {
		if name := pkg + " " + test; !w.running[name].IsZero() {
			if silence := now.Sub(w.running[name]); silence > w.longest && !w.waits(name) {
				w.longest, w.silent = silence, name
			}
			w.running[name] = now
		}
		i := strings.LastIndexByte(test, '/')
		if i < 0 {
			return
		}
		test = test[:i]
	}
}

// end removes a test or a package, and prints its output as far as needed.
func (w *watch) end(e *event, name string) {
	said := w.said[name]
	delete(w.said, name)
	delete(w.running, name)
	delete(w.paused, name)
	if e.Test == "" {
		w.under--
		w.done++
		if e.Action != "fail" && len(said) > 0 {
			said = said[len(said)-1:] // ok, the package, the time
		}
		for _, cut := range w.oldest() {
			if strings.HasPrefix(cut, e.Package+" ") { // its process ended before the test did
				said = slices.Concat(w.said[cut], said)
				delete(w.said, cut)
				delete(w.running, cut)
			}
		}
	} else if e.Action == "pass" {
		return
	}
	for _, text := range said {
		fmt.Fprint(w.out, text)
	}
}

// rest prints the output of tests and packages whose end was not reported. A killed `go test` does not report it, for
// example because a process started by a test held its output open.
func (w *watch) rest() {
	for _, name := range slices.Sorted(maps.Keys(w.said)) {
		fmt.Fprint(w.out, strings.Join(w.said[name], ""))
	}
	clear(w.said)
}

// standing returns the name of a test that has shown no activity for too long, or "" if there is none.
func (w *watch) standing(now time.Time) string {
	for _, name := range w.oldest() {
		if now.Sub(w.running[name]) >= w.still && !w.waits(name) {
			return name
		}
	}
	return ""
}

// waits reports whether a test has subtests that wait for a free parallel slot.
func (w *watch) waits(name string) bool {
	for paused := range w.paused {
		if strings.HasPrefix(paused, name+"/") {
			return true
		}
	}
	return false
}

// oldest lists the running tests, those inactive for the longest time first, and subtests before the tests that
// contain them.
func (w *watch) oldest() []string {
	names := make([]string, 0, len(w.running))
	for name := range w.running {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(w.running[a].Compare(w.running[b]), len(b)-len(a), strings.Compare(a, b))
	})
	return names
}

// state describes the progress of the run.
func (w *watch) state(now time.Time) string {
	text := fmt.Sprintf("... %v: %d packages done", now.Sub(w.began).Round(time.Second), w.done)
	if w.silent != "" {
		text += fmt.Sprintf("; the longest silence was %v, of %s", w.longest.Round(time.Second), w.silent)
	}
	if w.under == 0 {
		return text
	}
	names := w.oldest()
	text += fmt.Sprintf("; %d tests run", len(names))
	for _, name := range names[:min(2, len(names))] {
		text += fmt.Sprintf("; %s, silent for %v", name, now.Sub(w.running[name]).Round(time.Second))
	}
	return text
}
