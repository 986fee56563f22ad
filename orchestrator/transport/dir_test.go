package transport_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/transport"
)

func TestDir(t *testing.T) {
	t.Parallel()
	orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
		top := realTempDir(t)
		root := filepath.Join(top, "messages")
		must(t, os.Mkdir(root, 0o700))
		file, pipe := filepath.Join(top, "file"), filepath.Join(top, "pipe")
		must(t, os.WriteFile(file, nil, 0o600))
		must(t, unix.Mkfifo(pipe, 0o600))
		must(t, os.Symlink("nothing", filepath.Join(top, "dangling")))
		must(t, os.Mkdir(filepath.Join(top, "led-away"), 0o700))
		must(t, os.Symlink("..", filepath.Join(top, "led-away", transport.StagingFolder)))
		return orchestratortest.Fixture{
			Transport: transport.Dir{},
			Address:   root,
			Refused: []string{
				"a\x00b", file, file + "/", filepath.Join(file, "below"), pipe, "/dev/null",
				filepath.Join(top, "dangling"),
				filepath.Join(top, "led-away"), filepath.Join(top, strings.Repeat("x", 256)), "/proc/messages",
			},
			Arrived: func(t *testing.T) []orchestratortest.Arrival { return inFolder(t, root, "builder") },
			Lose:    dirLosses(root),
			Fail: func(t *testing.T) func() {
				inbox, aside := filepath.Join(root, "builder"), filepath.Join(top, "aside")
				must(t, os.Rename(inbox, aside))
				must(t, os.WriteFile(inbox, nil, 0o600))
				return func() {
					must(t, os.Remove(inbox))
					must(t, os.Rename(aside, inbox))
				}
			},
			Says: filepath.Join(root, "builder") + " is a link or is not a folder",
		}
	})
}

// realTempDir returns a temporary folder whose path contains no links.
func realTempDir(t *testing.T) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return path
}

// files returns the names in an agent's folder, in the order in which a reader takes the files.
func files(t *testing.T, root, agent string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, agent))
	if !errors.Is(err, fs.ErrNotExist) {
		must(t, err)
	}
	times := map[string]time.Time{}
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		times[e.Name()] = info.ModTime()
		names = append(names, e.Name())
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(times[a].Compare(times[b]), cmp.Compare(a, b)) })
	return names
}

// inFolder reads the messages in an agent's folder.
func inFolder(t *testing.T, root, agent string) (list []orchestratortest.Arrival) {
	t.Helper()
	for _, name := range files(t, root, agent) {
		text, err := os.ReadFile(filepath.Join(root, agent, name))
		must(t, err)
		var l struct {
			ID      string
			To      string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s is no whole message: %v", name, err)
		}
		if want, err := letter.FileName(l.ID); err != nil || name != want || l.To != agent {
			t.Errorf("%q, to %s, stands in %s as %s", l.ID, l.To, agent, name)
		}
		var payload bytes.Buffer
		must(t, json.Compact(&payload, l.Payload))
		list = append(list, orchestratortest.Arrival{ID: l.ID, Payload: payload.Bytes()})
	}
	return list
}

// dirLosses returns ways to destroy the evidence of whether a message was delivered that its reader has taken
// meanwhile.
func dirLosses(root string) []func(t *testing.T) {
	staging := filepath.Join(root, transport.StagingFolder)
	taken := func(t *testing.T) {
		pass(t, filepath.Join(staging, "README"))
		must(t, os.RemoveAll(filepath.Join(root, "builder")))
	}
	return []func(t *testing.T){
		func(t *testing.T) {
			taken(t)
			must(t, os.RemoveAll(staging))
		},
		func(t *testing.T) { // like `rm .mailroom/*`
			taken(t)
			names, err := filepath.Glob(staging + "/*")
			must(t, err)
			for _, name := range names {
				must(t, os.Remove(name))
			}
		},
		func(t *testing.T) { // recreated, or moved from another disk
			taken(t)
			must(t, os.RemoveAll(root))
			must(t, os.CopyFS(root, os.DirFS(t.TempDir())))
			must(t, os.Mkdir(staging, 0o700))
			must(t, os.WriteFile(filepath.Join(staging, "README"), nil, 0o600))
		},
	}
}

// dirLedger is a notebook whose messages go to one agent's folder.
type dirLedger struct {
	notebook
	root string
}

func newDir(t *testing.T) *dirLedger {
	t.Helper()
	return &dirLedger{root: realTempDir(t)}
}

func (l *dirLedger) attempt(ms ...orchestrator.Message) orchestrator.Attempt {
	a := l.notebook.attempt(l.root, ms...)
	a.Recipient, a.Database = "builder", "mailroom.db"
	return a
}

func (l *dirLedger) try(t *testing.T, ms ...orchestrator.Message) error {
	t.Helper()
	return errors.Join(transport.Dir{}.Deliver(t.Context(), l.attempt(ms...))...)
}

func (l *dirLedger) recover(t *testing.T, m orchestrator.Message) (bool, error) {
	t.Helper()
	m.Mark, m.Crashes = l.notes[m.ID], 1
	a := l.attempt(m)
	a.Database = "" // the router does not pass it again
	return transport.Dir{}.Recover(t.Context(), a)
}

// mustFail checks that an attempt fails with the reason why, that nothing was delivered or left staged, and that
// the message may be retried. It then applies the remedy and checks that the message is delivered.
func (l *dirLedger) mustFail(t *testing.T, m orchestrator.Message, why string, remedy func()) {
	t.Helper()
	before := len(files(t, l.root, "builder"))
	err := l.try(t, m)
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%v; want something about %q", err, why)
	}
	if found, err := l.recover(t, m); found || err != nil {
		t.Errorf("Recover after an attempt that failed: %v, %v", found, err)
	}
	remedy()
	must(t, l.try(t, m))
	if now := len(files(t, l.root, "builder")); now != before+1 {
		t.Errorf("%d files instead of %d", now, before+1)
	}
	l.mustBeStaged(t)
}

// mustBeStaged checks which files are staged.
func (l *dirLedger) mustBeStaged(t *testing.T, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.root, transport.StagingFolder))
	must(t, err)
	var got []string
	for _, e := range entries {
		if e.Name() != "README" {
			text, err := os.ReadFile(filepath.Join(l.root, transport.StagingFolder, e.Name()))
			must(t, err)
			read, err := letter.Parse(text)
			must(t, err)
			got = append(got, read.ID)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("staged: %q; want %q", got, want)
	}
}
