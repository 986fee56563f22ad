package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
)

// TestReplacedDatabase checks that no message is lost if a database is removed or replaced while a process has it
// open: the send that came too late is refused, and the next send and all readers use the new file.
func TestReplacedDatabase(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, path, other string){
		"made anew": func(t *testing.T, path, _ string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
		},
		"replaced": func(t *testing.T, path, other string) {
			for _, suffix := range []string{"-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, other := filepath.Join(t.TempDir(), "a.db"), filepath.Join(t.TempDir(), "other.db")
			made := enginetest.Open(t, other)
			addAB(t, made)
			if err := made.Close(); err != nil {
				t.Fatal(err)
			}
			r := enginetest.Open(t, path)
			addAB(t, r)
			draft := orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte(`"kept"`)}
			if _, err := messages.Send(t.Context(), r.Ledger, draft); err != nil {
				t.Fatal(err)
			}
			if _, err := delivery.Poll(t.Context(), r.Ledger, "b", 1); err != nil { // a reader has the file open, too
				t.Fatal(err)
			}
			replace(t, path, other)
			_, err := messages.Send(t.Context(), r.Ledger, draft)
			want.Code(t, err, orchestrator.Unavailable)
			if name == "made anew" {
				addAB(t, enginetest.Open(t, path))
			}
			if _, err := messages.Send(t.Context(), r.Ledger, draft); err != nil {
				t.Fatal(err)
			}
			if backlog, err := delivery.Poll(t.Context(), r.Ledger, "b", 10); err != nil || backlog.Pending != 1 {
				t.Errorf("a reader of the same process sees %d messages, %v; want the one", backlog.Pending, err)
			}
			ms, _, err := reading.Wait(t.Context(), enginetest.Open(t, path).Ledger,
				reading.Options{Recipient: "b", Limit: 10})
			if err != nil || len(ms) != 1 {
				t.Errorf("another process reads %d messages, %v; want the one", len(ms), err)
			}
		})
	}
}

func addAB(t *testing.T, r *delivery.Engine) {
	t.Helper()
	for _, name := range []string{"a", "b"} {
		if _, _, err := agents.Add(t.Context(), r.Ledger, agents.Update{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
}

func mustSend(t *testing.T, r *delivery.Engine, payload string) {
	t.Helper()
	if _, err := messages.Send(t.Context(), r.Ledger, draftOf(payload)); err != nil {
		t.Fatalf("sending %s: %v", payload, err)
	}
}

func draftOf(payload string) orchestrator.Draft {
	return orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte(strconv.Quote(payload))}
}

// refusedSend checks that a send fails with an error that contains part.
func refusedSend(t *testing.T, r *delivery.Engine, payload, part string) {
	t.Helper()
	_, err := messages.Send(t.Context(), r.Ledger, draftOf(payload))
	want.Code(t, err, orchestrator.Unavailable)
	if !strings.Contains(err.Error(), part) {
		t.Errorf("sending %s: %v; want %q", payload, err, part)
	}
}

// wantPayloads checks that another process sees exactly these messages.
func wantPayloads(t *testing.T, path string, payloads ...string) {
	t.Helper()
	r := enginetest.Open(t, path)
	backlog, err := delivery.Poll(t.Context(), r.Ledger, "b", 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range backlog.Messages {
		got = append(got, strings.Trim(string(m.Payload), `"`))
	}
	if !slices.Equal(got, payloads) {
		t.Errorf("the messages are %q; want %q", got, payloads)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestMovedAwayAndBack checks that a send that was refused because the database had been renamed is not in the
// database when it is back.
func TestMovedAwayAndBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	r := enginetest.Open(t, path)
	addAB(t, r)
	mustSend(t, r, "one")
	move(t, path, path+".away")
	refusedSend(t, r, "two", "is missing")
	move(t, path+".away", path)
	mustSend(t, r, "two")
	wantPayloads(t, path, "one", "two")
}

// TestRemovedDatabase checks that a router whose database is removed creates no new database and no other file,
// whatever the call is. All calls return the same error until the database is back.
func TestRemovedDatabase(t *testing.T) {
	t.Parallel()
	for name, opened := range map[string]bool{"while it is open": true, "before it is opened": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := t.TempDir()
			folder := filepath.Join(above, "there")
			path := filepath.Join(folder, "a.db")
			made := enginetest.Open(t, path)
			addAB(t, made)
			mustSend(t, made, "one")
			if err := made.Close(); err != nil {
				t.Fatal(err)
			}
			r, err := router.Open(t.Context(), ledger.Options{Path: path}) // with the bell that processes have
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			if opened {
				mustSend(t, r, "two")
				if _, err := delivery.Poll(t.Context(), r.Ledger, "b", 1); err != nil {
					t.Fatal(err)
				}
			}
			away := filepath.Join(above, "away")
			move(t, folder, away)
			for _, back := range []string{"nothing", "the folder", "an empty file"} {
				var err error
				switch back {
				case "the folder":
					err = os.Mkdir(folder, 0o700)
				case "an empty file":
					err = os.WriteFile(path, nil, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				for what, use := range map[string]func() error{
					"send": func() error {
						_, err := messages.Send(t.Context(), r.Ledger,
							draftOf("lost"))
						return err
					},
					"poll":   func() error { _, err := delivery.Poll(t.Context(), r.Ledger, "b", 1); return err },
					"create": func() error { _, err := r.Store.Create(); return err },
					"wait": func() error {
						_, _, err := reading.Wait(t.Context(), r.Ledger,
							reading.Options{Recipient: "b", Limit: 1, Timeout: time.Minute})
						return err
					},
				} {
					for range 2 {
						err := use()
						want.Code(t, err, orchestrator.Unavailable)
						if err == nil || !strings.Contains(err.Error(), "was removed while this program used it") {
							t.Errorf("%s: %v", what, err)
						}
					}
				}
				if f := overview.Doctor(t.Context(), r.Ledger, overview.DoctorOptions{})[0]; f.Level != "problem" ||
					!strings.Contains(f.Says, "was removed") {
					t.Errorf("the doctor finds %+v", f)
				}
				left, _ := os.ReadDir(folder)
				info, err := os.Stat(path)
				if back == "an empty file" && (err != nil || info.Size() > 0 || len(left) != 1) ||
					back != "an empty file" && len(left) > 0 {
					t.Errorf("there is %v where the database was", left)
				}
			}
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			move(t, away, folder)
			mustSend(t, r, "three")
			if opened {
				wantPayloads(t, path, "one", "two", "three")
			} else {
				wantPayloads(t, path, "one", "three")
			}
		})
	}
}

// TestRemovedAndBegunAnew checks that a new database in the place of the old one is used.
func TestRemovedAndBegunAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	made := enginetest.Open(t, path)
	addAB(t, made)
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	r := enginetest.Open(t, path)
	mustSend(t, r, "old")
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	for _, use := range []func() error{
		func() error { _, err := delivery.Poll(t.Context(), r.Ledger, "b", 1); return err },
		func() error { _, err := messages.Send(t.Context(), r.Ledger, draftOf("lost")); return err },
	} {
		err := use()
		want.Code(t, err, orchestrator.Unavailable)
		for _, says := range []string{"Put the file back, or create a new database at this path. This program then uses the file at this path",
			"`mailroom --db " + path + " agent add NAME`"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v; want %q", err, says)
			}
		}
	}
	addAB(t, enginetest.Open(t, path))
	mustSend(t, r, "new")
	wantPayloads(t, path, "new")
}

// TestMovedDuringACommit checks the error if the database goes away between the commit and the answer: the outcome
// is unknown.
func TestMovedDuringACommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	bell := callingBell{store.NewLocalBell(), func() { os.Rename(path, path+".away") }}
	r, err := router.Open(t.Context(), ledger.Options{Path: path, Bell: bell})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	made := enginetest.Open(t, path)
	addAB(t, made)
	refusedSend(t, r, "one", "may or may not have been saved")
	move(t, path+".away", path)
	wantPayloads(t, path, "one")
}

// callingBell calls a function when it is rung, after the commit and before the answer.
type callingBell struct {
	orchestrator.Bell
	call func()
}

func (b callingBell) Ring(...string) { b.call() }

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestRemovedLog checks that no message is lost if a -wal is removed while a process has it open: neither one that
// was answered before, nor a later one.
func TestRemovedLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	r := enginetest.Open(t, path)
	addAB(t, r)
	mustSend(t, r, "one")
	if _, err := delivery.Poll(t.Context(), r.Ledger, "b", 1); err != nil { // a reader has it open, too
		t.Fatal(err)
	}
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	refusedSend(t, r, "two", "nothing was saved")
	mustSend(t, r, "two")
	if backlog, err := delivery.Poll(t.Context(), r.Ledger, "b", 10); err != nil || backlog.Pending != 2 {
		t.Errorf("a reader of the same process sees %d messages, %v; want two", backlog.Pending, err)
	}
	mustSend(t, r, "three")
	// The files that other processes find after a kill.
	copied := filepath.Join(t.TempDir(), "a.db")
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(copied+suffix, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wantPayloads(t, copied, "one", "two", "three")
	wantPayloads(t, path, "one", "two", "three")
}

// TestMissingDatabase checks that no database is created if only the -wal of a database is left, or the -wal beside
// an empty file, since that would discard the contents of the -wal. The file can be put back.
func TestMissingDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	r := enginetest.Open(t, path)
	addAB(t, r)
	mustSend(t, r, "one")
	if _, err := delivery.Poll(t.Context(), r.Ledger, "b", 1); err != nil {
		t.Fatal(err)
	}
	move(t, path, path+".old")
	other := enginetest.Open(t, path)
	refused := func(place string) {
		t.Helper()
		for what, r := range map[string]*delivery.Engine{"another process": other, "the one that had it open": r} {
			for range 2 {
				_, err := messages.Send(t.Context(), r.Ledger, draftOf("two"))
				want.Code(t, err, orchestrator.Unavailable)
				_, err = delivery.Poll(t.Context(), r.Ledger, "b", 1)
				want.Code(t, err, orchestrator.Unavailable)
				if !strings.Contains(err.Error(), "is missing") || !strings.Contains(err.Error(), path+"-wal") {
					t.Errorf("%s, %s: %v", what, place, err)
				}
			}
		}
	}
	refused("no file")
	if _, err := os.Stat(path); err == nil {
		t.Error("a database was made")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("an empty file")
	findings := overview.Doctor(t.Context(), other.Ledger, overview.DoctorOptions{})
	if f := findings[0]; f.Code != "file" || f.Level != "problem" || !strings.Contains(f.Says, "is missing") {
		t.Errorf("the doctor finds %+v", f)
	}
	move(t, path+".old", path)
	mustSend(t, other, "two")
	mustSend(t, r, "three")
	wantPayloads(t, path, "one", "two", "three")
}

// TestReplacedBesideItsLog checks that a database in the place of another is not opened with the -wal of the other.
func TestReplacedBesideItsLog(t *testing.T) {
	t.Parallel()
	path, other := filepath.Join(t.TempDir(), "a.db"), filepath.Join(t.TempDir(), "other.db")
	made := enginetest.Open(t, other)
	addAB(t, made)
	mustSend(t, made, "other")
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	r := enginetest.Open(t, path)
	addAB(t, r)
	mustSend(t, r, "one")
	move(t, path, path+".away")
	move(t, other, path)
	refusedSend(t, r, "two", "nothing was saved")
	refusedSend(t, r, "two", "still belongs to the previous database")
	_, err := delivery.Poll(t.Context(), r.Ledger, "b", 1)
	want.Code(t, err, orchestrator.Unavailable)
	move(t, path, other)
	move(t, path+".away", path)
	mustSend(t, r, "two") // the previous database is back

	move(t, path, path+".away")
	move(t, other, path)
	refusedSend(t, r, "three", "nothing was saved")
	for _, suffix := range []string{"-wal", "-shm"} {
		move(t, path+suffix, path+".away"+suffix)
	}
	mustSend(t, r, "three")
	wantPayloads(t, path, "other", "three")
	wantPayloads(t, path+".away", "one", "two")
}
