package transport_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// dyingDir leaves the files that Dir leaves if its process dies while it stores the note. The zero value does not
// die.
type dyingDir struct {
	transport.Dir
	dies, noted bool   // noted: the note was stored before
	staged      func() // called before the note is stored
}

func (d *dyingDir) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	store := a.Mark
	a.Mark = func(ctx context.Context, note string) error {
		if d.staged != nil {
			d.staged()
		}
		var err error
		if !d.dies || d.noted {
			err = store(ctx, note)
		}
		if d.dies {
			err = errors.New("the process dies")
		}
		return err
	}
	return d.Dir.Deliver(ctx, a)
}

// leftovers is a database whose agent builder gets its messages as files.
type leftovers struct {
	*delivery.Engine
	t    *testing.T
	now  time.Time
	dir  dyingDir
	root string
}

func newLeftovers(t *testing.T) *leftovers {
	l := &leftovers{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), root: realTempDir(t)}
	l.Engine = enginetest.OpenWith(t, ledger.Options{
		Path: filepath.Join(t.TempDir(), "m.db"), Bell: store.NewLocalBell(),
		Now:        func() time.Time { return l.now },
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "dir": &l.dir},
	})
	l.add("architect", "inbox")
	l.add("builder", "dir:"+l.root)
	return l
}

func (l *leftovers) add(name, deliver string) {
	l.t.Helper()
	_, _, err := agents.Add(l.t.Context(), l.Ledger, agents.Update{Name: name, Deliver: &deliver})
	must(l.t, err)
}

// die makes an attempt to deliver a new message, with the given number of retries, whose process dies.
func (l *leftovers) die(noted bool, retries int) (id string) {
	l.t.Helper()
	l.dir.dies, l.dir.noted = true, noted
	sent, err := messages.Send(l.t.Context(), l.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "builder", Type: "note", MaxRetries: &retries})
	must(l.t, err)
	_, err = l.DeliverAll(l.t.Context(), delivery.Options{})
	must(l.t, err)
	l.dir.dies = false
	l.mustBeStaged(sent.MessageID)
	return sent.MessageID
}

// clear advances the clock and clears what ended longer than a week ago.
func (l *leftovers) clear(after time.Duration) {
	l.t.Helper()
	l.now = l.now.Add(after)
	_, err := retention.ClearOld(l.t.Context(), l.Ledger, retention.ClearOptions{})
	must(l.t, err)
}

func (l *leftovers) mustBeStaged(want ...string) {
	l.t.Helper()
	(&dirLedger{root: l.root}).mustBeStaged(l.t, want...)
}

// The next clear_old removes a file that nobody needs: its message was given up or cancelled before a note referred
// to it.
func TestDirLeftoversOfTheEnded(t *testing.T) {
	t.Parallel()
	l := newLeftovers(t)
	l.die(false, 0)
	l.clear(0)
	l.mustBeStaged()
	id := l.die(false, 3)
	_, err := messages.Cancel(t.Context(), l.Ledger, id, "")
	must(t, err)
	l.clear(0)
	l.mustBeStaged()
}

// A file that a note refers to stays as long as Recover may need it: while the message is live, and until a dead
// letter is cleared.
func TestDirLeftoversThatAreNoted(t *testing.T) {
	t.Parallel()
	l := newLeftovers(t)
	live := l.die(true, 3)
	l.clear(0)
	l.mustBeStaged(live)
	l.now = l.now.Add(time.Hour)
	_, err := l.DeliverAll(t.Context(), delivery.Options{})
	must(t, err)
	dead := l.die(true, 0)
	l.clear(0)
	l.mustBeStaged(dead)
	_, err = messages.Replay(t.Context(), l.Ledger, dead, "")
	must(t, err)
	_, err = l.DeliverAll(t.Context(), delivery.Options{})
	must(t, err)
	l.mustBeStaged()
	if got := inFolder(t, l.root, "builder"); len(got) != 2 {
		t.Errorf("arrived: %v", got)
	}
	l.die(true, 0)
	l.clear(8 * 24 * time.Hour)
	l.mustBeStaged()
}

// The staged files for an agent go when it is removed, or with its dead letters if their notes refer to the files.
// Nobody else uses the root.
func TestDirLeftoversOfTheRemoved(t *testing.T) {
	t.Parallel()
	for _, noted := range []bool{false, true} {
		l := newLeftovers(t)
		id := l.die(noted, 3)
		_, err := removal.Remove(t.Context(), l.Ledger, removal.Request{Name: "builder", Force: true})
		must(t, err)
		if noted {
			l.clear(0)
			l.mustBeStaged(id)
			l.clear(8 * 24 * time.Hour)
		}
		l.mustBeStaged()
	}
}

// Files of current attempts and of others are left alone.
func TestDirLeftoversAreNoOthers(t *testing.T) {
	t.Parallel()
	l := newLeftovers(t)
	other := &dirLedger{root: l.root}
	other.dieAfterMark(t, note("other", `1`))
	mine := filepath.Join(l.root, transport.StagingFolder, "notes-of-mine")
	must(t, os.WriteFile(mine, []byte(`{"id":"mine","from":"a","to":"b","type":"x","payload":0}`), 0o600))
	l.dir.staged = func() { l.clear(0) }
	sent, err := messages.Send(t.Context(), l.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "builder", Type: "note"})
	must(t, err)
	d, err := l.DeliverAll(t.Context(), delivery.Options{})
	if err != nil || d.Delivered != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	l.mustBeStaged("mine", "other")
	if got := inFolder(t, l.root, "builder"); len(got) != 1 || got[0].ID != sent.MessageID {
		t.Errorf("arrived: %v", got)
	}

	// A missing root may come back.
	must(t, os.Rename(l.root, l.root+"-elsewhere"))
	l.clear(0)
	if _, err := os.Lstat(l.root); err == nil {
		t.Error("the root was made")
	}
}
