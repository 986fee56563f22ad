package transport_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/transport"
)

// The disk accepts only a part of a write, up to any byte. The whole lines count, the torn line is removed, and the
// rest is delivered once there is room.
func TestJSONLDiskFull(t *testing.T) {
	t.Parallel()
	helper.Start(t, "narrow", t.TempDir()).Wait()
}

// runNarrow limits the file size of this process, so that a write is cut at the limit as on a full disk.
func runNarrow(t *testing.T, args []string) {
	signal.Ignore(unix.SIGXFSZ)
	ms := make([]orchestrator.Message, 6)
	for i := range ms {
		ms[i] = note(fmt.Sprintf("m%d", i), `"`+strings.Repeat("x", 40*i)+`"`)
	}
	for n, before := range []string{"", "{}\n", "{\"message_id\":\"torn"} {
		for room := 0; ; room += 13 {
			n := narrow{t: t, path: filepath.Join(args[0], fmt.Sprintf("%d-%d.jsonl", n, room)), before: before}
			if !n.run(ms, room) {
				break
			}
		}
	}
}

// narrow is a file that may not grow beyond a limit.
type narrow struct {
	t            *testing.T
	path, before string
	notebook     notebook
}

// run delivers with room for so many bytes, and reports whether that was too little.
func (n *narrow) run(ms []orchestrator.Message, room int) bool {
	n.t.Helper()
	must(n.t, os.WriteFile(n.path, []byte(n.before), 0o600))
	n.limit(uint64(len(n.before) + room))
	errs := transport.JSONL{}.Deliver(n.t.Context(), n.notebook.attempt(n.path, ms...))
	n.limit(unix.RLIM_INFINITY)
	done := 0
	for done < len(errs) && errs[done] == nil {
		done++
	}
	if want := n.fitting(ms, room); done != want {
		n.t.Fatalf("room %d: %d messages were delivered, not %d", room, done, want)
	}
	for _, err := range errs[done:] {
		if !errors.Is(err, syscall.EFBIG) {
			n.t.Fatalf("room %d: %v", room, err)
		}
	}
	if got := arrived(n.t, n.path); len(got) != done+strings.Count(n.before, "\n") {
		n.t.Fatalf("room %d: %d are said to be delivered, and there are %d lines", room, done, len(got))
	}
	text, err := os.ReadFile(n.path)
	must(n.t, err)
	if rest := strings.TrimPrefix(string(text), n.before); rest != "" && !strings.HasSuffix(rest, "\n") {
		n.t.Fatalf("room %d: a torn line is left: %q", room, rest)
	}
	// Other messages come first, and the reader may empty the file if it contains nothing of the attempt.
	if done == 0 {
		must(n.t, os.Truncate(n.path, 0))
	}
	n.notebook.deliver(n.t, n.path, note("other", `1`))
	for i, m := range ms {
		had, err := n.notebook.recover(n.t, n.path, m)
		if err != nil || had != (i < done) {
			n.t.Fatalf("room %d: Recover of %s: %v, %v", room, m.ID, had, err)
		}
		if !had {
			n.notebook.deliver(n.t, n.path, m)
		}
	}
	got := map[string]int{}
	for _, a := range arrived(n.t, n.path) {
		got[a.ID]++
	}
	for _, m := range ms {
		if got[m.ID] != 1 {
			n.t.Fatalf("room %d: %s is there %d times", room, m.ID, got[m.ID])
		}
	}
	return done < len(ms)
}

// fitting returns how many of the messages fit into so many bytes.
func (n *narrow) fitting(ms []orchestrator.Message, room int) (count int) {
	n.t.Helper()
	if n.before != "" && !strings.HasSuffix(n.before, "\n") {
		room-- // for the end of the torn line
	}
	reference := n.path + ".reference"
	var l notebook
	l.deliver(n.t, reference, ms...)
	whole, _ := lines(n.t, reference)
	for _, text := range whole {
		if room -= len(text) + 1; room < 0 {
			break
		}
		count++
	}
	must(n.t, os.Remove(reference))
	return count
}

func (n *narrow) limit(size uint64) {
	n.t.Helper()
	var limit unix.Rlimit
	must(n.t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	limit.Cur = size
	must(n.t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
}
