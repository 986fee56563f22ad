package transport_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/transport"
)

// A file of another program that already has the name stays unchanged.
func TestDirForeignFile(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"file":   func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"empty":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link":   func(path string) error { return os.Symlink("nothing", path) },
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newDir(t)
			must(t, l.try(t, note("before", `1`)))
			path := filepath.Join(l.root, "builder", "m.json")
			must(t, put(path))
			foreign, err := os.Lstat(path)
			must(t, err)

			// The other messages of the attempt are delivered and keep their notes.
			err = l.try(t, note("n1", `1`), note("m", `1`), note("n2", `1`))
			if err == nil ||
				!strings.Contains(err.Error(), path+" already exists and does not contain this message; remove it") {
				t.Errorf("%v", err)
			}
			if now, err := os.Lstat(path); err != nil || !os.SameFile(now, foreign) {
				t.Errorf("the file is another one: %v", err)
			}
			for id, want := range map[string]bool{"n1": true, "m": false, "n2": true} {
				if found, err := l.recover(t, note(id, `1`)); found != want || err != nil {
					t.Errorf("Recover of %s: %v, %v", id, found, err)
				}
			}
			l.mustBeStaged(t)
			must(t, os.Remove(path))
			must(t, l.try(t, note("m", `1`)))
			if got := files(t, l.root, "builder"); !slices.Equal(got,
				[]string{"before.json", "n1.json", "n2.json", "m.json"}) {
				t.Errorf("arrived: %q", got)
			}
		})
	}
}

// A note is stored with every message of its attempt, even with one that could not be staged. Such a message must
// not count as delivered.
func TestDirBadMessageIsNotFound(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	bad := note("bad", `{"half":`)
	l.dieAfterMark(t, note("m", `1`), bad)
	for _, m := range []orchestrator.Message{bad, note("bad", `1`)} { // even if somebody has corrected the row
		if found, err := l.recover(t, m); found || err != nil {
			t.Errorf("Recover: %v, %v", found, err)
		}
	}
	must(t, l.try(t, note("bad", `1`)))
	if found, err := l.recover(t, note("m", `1`)); !found || err != nil {
		t.Errorf("Recover: %v, %v", found, err)
	}
	if got := inFolder(t, l.root, "builder"); len(got) != 2 {
		t.Errorf("arrived: %v", got)
	}
}

// If the attempt crashes before the rename and another file takes the name meanwhile, the message waits until the
// name is free.
func TestDirForeignFileAtRecovery(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	l.dieAfterMark(t, note("m", `1`), note("n", `1`))
	l.mustBeStaged(t, "m", "n")
	path := filepath.Join(l.root, "builder", "m.json")
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	for range 2 {
		if found, err := l.recover(t, note("m", `1`)); found || err == nil ||
			errors.Is(err, orchestrator.ErrUndecidable) {
			t.Errorf("Recover: %v, %v", found, err)
		}
	}
	must(t, os.Remove(path))
	for _, id := range []string{"m", "n"} {
		if found, err := l.recover(t, note(id, `1`)); !found || err != nil {
			t.Errorf("Recover of %s: %v, %v", id, found, err)
		}
	}
	l.mustBeStaged(t)
}

// If somebody has already put the same message there, it counts as delivered.
func TestDirSameFile(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	m := note("m", `1`)
	text, err := letter.Of(&m).Encode()
	must(t, err)
	path := filepath.Join(l.root, "builder", "m.json")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, text, 0o600))
	must(t, l.try(t, m))
	l.mustBeStaged(t)
	l.dieAfterMark(t, m)
	if found, err := l.recover(t, m); !found || err != nil {
		t.Errorf("Recover: %v, %v", found, err)
	}
	l.mustBeStaged(t)
	if got := inFolder(t, l.root, "builder"); len(got) != 1 {
		t.Errorf("arrived: %v", got)
	}

	// The file also shows the result for a message whose staging folder is gone.
	must(t, os.RemoveAll(filepath.Join(l.root, transport.StagingFolder)))
	if found, err := l.recover(t, m); !found || err != nil {
		t.Errorf("Recover without the staging folder: %v, %v", found, err)
	}
}

// dieAfterMark makes an attempt whose process ends after its note is stored and before any file is moved.
func (l *dirLedger) dieAfterMark(t *testing.T, ms ...orchestrator.Message) {
	t.Helper()
	a := l.attempt(ms...)
	store := a.Mark
	a.Mark = func(ctx context.Context, note string) error {
		must(t, store(ctx, note))
		panic("the process ends")
	}
	defer func() {
		if recover() == nil {
			t.Error("nothing was marked")
		}
	}()
	transport.Dir{}.Deliver(t.Context(), a)
}

// Folders may be removed and recreated at any time.
func TestDirFolderRemovedAndRecreated(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	inbox := filepath.Join(l.root, "builder")
	must(t, l.try(t, note("m1", `1`)))
	must(t, os.RemoveAll(inbox))
	must(t, l.try(t, note("m2", `1`)))
	must(t, os.RemoveAll(inbox))
	must(t, os.Mkdir(inbox, 0o755))
	must(t, l.try(t, note("m3", `1`)))
	must(t, os.RemoveAll(inbox))
	l.dieAfterMark(t, note("m4", `1`))
	must(t, os.RemoveAll(inbox))
	if found, err := l.recover(t, note("m4", `1`)); !found || err != nil {
		t.Errorf("Recover: %v, %v", found, err)
	}
	if got := files(t, l.root, "builder"); !slices.Equal(got, []string{"m4.json"}) {
		t.Errorf("arrived: %q", got)
	}

	// The root is not created, because its place may be the mount point of a disk that is not mounted.
	elsewhere := l.root + "-elsewhere"
	l.dieAfterMark(t, note("m5", `1`))
	must(t, os.Rename(l.root, elsewhere))
	if err := l.try(t, note("m6", `1`)); err == nil ||
		!strings.Contains(err.Error(), l.root+" does not exist; create it") {
		t.Errorf("%v", err)
	}
	if found, err := l.recover(t, note("m5", `1`)); found || err == nil || errors.Is(err, orchestrator.ErrUndecidable) {
		t.Errorf("Recover without a root: %v, %v; it may come back", found, err)
	}
	must(t, os.Rename(elsewhere, l.root))
	must(t, l.try(t, note("m6", `1`)))
	if found, err := l.recover(t, note("m5", `1`)); !found || err != nil {
		t.Errorf("Recover: %v, %v", found, err)
	}
}

// The next attempt removes what attempts staged that were killed before they stored a note. The files of other
// messages stay, because notes may refer to them.
func TestDirClearsUp(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	fail := func(ms ...orchestrator.Message) {
		a := l.attempt(ms...)
		a.Mark = func(context.Context, string) error { return errors.New("nobody knows whether this is stored") }
		if err := errors.Join(transport.Dir{}.Deliver(t.Context(), a)...); err == nil {
			t.Error("delivered without a note")
		}
	}
	fail(note("m", `1`), note("n", `1`))
	fail(note("m", `1`))
	l.dieAfterMark(t, note("waiting", `1`))
	l.mustBeStaged(t, "m", "m", "n", "waiting")
	stray := filepath.Join(l.root, transport.StagingFolder, "mailroom.db")
	must(t, os.WriteFile(stray, []byte(`{"id":"stray","from":"a","to":"b","type":"x","payload":0}`), 0o600))
	must(t, os.Chtimes(stray, time.Unix(0, 0), time.Unix(0, 0)))

	again := note("m", `1`)
	again.Crashes = 1
	must(t, l.try(t, again))
	l.mustBeStaged(t, "n", "stray", "waiting")
	must(t, l.try(t, again)) // by hand; it stays the only file
	l.mustBeStaged(t, "n", "stray", "waiting")
	if got := files(t, l.root, "builder"); !slices.Equal(got, []string{"m.json"}) {
		t.Errorf("arrived: %q", got)
	}
}

// An attempt that lost its lease while it was suspended cannot undo anything of the next attempt.
func TestDirLateAttempt(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	m := note("m", `1`)
	late := l.attempt(m)
	store := late.Mark
	asked := 0
	late.Mark = func(ctx context.Context, text string) error {
		if asked++; asked > 1 {
			return orchestrator.ErrLeaseLost
		}
		must(t, store(ctx, text))
		// The attempt is suspended here for longer than its lease. The next worker calls Recover, and the reader
		// takes the message.
		if found, err := l.recover(t, m); !found || err != nil {
			t.Errorf("Recover: %v, %v", found, err)
		}
		must(t, os.Remove(filepath.Join(l.root, "builder", "m.json")))
		return nil
	}
	if err := (transport.Dir{}).Deliver(t.Context(), late)[0]; err == nil {
		t.Error("the late attempt says that it delivered")
	}
	if found, err := l.recover(t, m); !found || err != nil {
		t.Errorf("Recover: %v, %v", found, err)
	}
	if got := files(t, l.root, "builder"); len(got) != 0 {
		t.Errorf("it arrived twice: %q", got)
	}
	l.mustBeStaged(t)
}

// An attempt that cannot deliver, or is no longer allowed to, leaves nothing staged.
func TestDirGivesUpCleanly(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	m := note("m", `1`)
	a := l.attempt(m)
	store := a.Mark
	a.Mark = func(context.Context, string) error { return orchestrator.ErrLeaseLost }
	if err := (transport.Dir{}).Deliver(t.Context(), a)[0]; !errors.Is(err, orchestrator.ErrLeaseLost) {
		t.Errorf("%v", err)
	}
	l.mustBeStaged(t)

	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("the time is up")
	a.Mark = func(ctx context.Context, text string) error {
		cancel(late)
		return store(ctx, text)
	}
	for range 2 { // before and during the call of Mark
		if err := (transport.Dir{}).Deliver(ctx, a)[0]; !errors.Is(err, late) {
			t.Errorf("%v", err)
		}
		l.mustBeStaged(t)
		if found, err := l.recover(t, m); found || err != nil {
			t.Errorf("Recover: %v, %v", found, err)
		}
		a.Mark = func(context.Context, string) error {
			t.Error("it was marked after the time limit was reached")
			return nil
		}
	}
	if got := files(t, l.root, "builder"); len(got) != 0 {
		t.Errorf("arrived: %q", got)
	}
}

// An attempt that failed and cannot clear its note leaves the files that the note refers to.
func TestDirKeepsWhatItsNoteSpeaksOf(t *testing.T) {
	t.Parallel()
	for _, beside := range [][]orchestrator.Message{nil, {note("n", `1`)}} {
		l := newDir(t)
		path := filepath.Join(l.root, "builder", "m.json")
		must(t, os.Mkdir(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("mine"), 0o600))
		a := l.attempt(append(beside, note("m", `1`))...)
		store, busy := a.Mark, errors.New("busy")
		marked := false
		a.Mark = func(ctx context.Context, text string) error {
			if marked {
				return busy
			}
			marked = true
			return store(ctx, text)
		}
		if err := errors.Join(transport.Dir{}.Deliver(t.Context(), a)...); err == nil ||
			!strings.Contains(err.Error(), "already exists") {
			t.Errorf("%v", err)
		}
		l.mustBeStaged(t, "m")
		must(t, os.Remove(path))
		if found, err := l.recover(t, note("m", `1`)); !found || err != nil {
			t.Errorf("Recover: %v, %v", found, err)
		}
		if got := len(files(t, l.root, "builder")); got != 1+len(beside) {
			t.Errorf("%d files", got)
		}
	}
}

// Somebody empties the staging folder during an attempt. The attempt still has its lease, so nobody else can have
// moved the file: the message was not delivered and may be retried.
func TestDirEmptiedDuringAttempt(t *testing.T) {
	t.Parallel()
	l := newDir(t)
	m := note("m", `1`)
	a := l.attempt(m)
	store := a.Mark
	a.Mark = func(ctx context.Context, text string) error {
		names, err := filepath.Glob(filepath.Join(l.root, transport.StagingFolder, "*-*"))
		must(t, err)
		for _, name := range names {
			must(t, os.Remove(name))
		}
		return store(ctx, text)
	}
	if err := (transport.Dir{}).Deliver(t.Context(), a)[0]; err == nil ||
		!strings.Contains(err.Error(), "the staged file no longer exists") {
		t.Errorf("%v", err)
	}
	if found, err := l.recover(t, m); found || err != nil {
		t.Errorf("Recover: %v, %v", found, err)
	}
	must(t, l.try(t, m))
	if got := inFolder(t, l.root, "builder"); len(got) != 1 {
		t.Errorf("arrived: %v", got)
	}
}
