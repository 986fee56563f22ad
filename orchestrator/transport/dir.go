//go:build unix

package transport

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/letter"
)

// Dir writes each message to its own file, `{root}/{agent}/{id}.json`, in document 002's form (package letter). Its
// address is the root: `--deliver dir:ROOT`. The default root is `.claude/session/messages`.
//
// An agent's folder only ever contains whole files. The agent reads a file and removes it when it is done. The
// modification times of the files of one sender are in the order of sending.
//
// A message is staged first: it is written to `{root}/.mailroom` and synced, a note is stored with the message, and
// then the file is renamed into the agent's folder, once. So after a crash a file that is still staged was not
// delivered, and a file that is no longer staged was delivered, even if the agent has already removed it. This
// holds as long as nobody else changes `.mailroom`. If it was emptied or replaced meanwhile and the message is not
// in the agent's folder, the message fails with that reason. A single staged file that somebody removes by hand
// during such a crash cannot be distinguished from a delivered one.
//
// The folder of an agent is created if it is missing. The root is not, because it could be on a disk that is not
// mounted. Folders are created with mode 0700, files with 0600. An agent's folder must be on the root's file system
// and must not be a link. Existing files of others are never replaced.
type Dir struct{}

const (
	// defaultRoot is the root if the address names none.
	defaultRoot = ".claude/session/messages"

	// StagingFolder is the folder for staged files in the root.
	StagingFolder = ".mailroom"
)

// maxFiles is the largest batch: the number of files that one note covers.
const maxFiles = 100

// Check makes the path absolute and resolves symbolic links in it. It creates the folder if it does not exist and
// tests whether files can be created in it.
func (Dir) Check(address string) (string, error) {
	if strings.ContainsRune(address, 0) {
		return "", errors.New("a path must not contain NUL")
	}
	path, err := absolute(cmp.Or(address, defaultRoot))
	if err != nil {
		return "", err
	}
	if err := makeFolders(path); err != nil {
		return "", err
	}
	root, err := openFolder(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	staging, err := root.stagingFolder()
	if err != nil {
		return "", err
	}
	defer staging.Close()
	probe := "probe-" + rand.Text()
	return path, errors.Join(staging.write(probe, []byte("x")), staging.remove(probe))
}

// CheckPlace returns an error if the root does not exist, or if the agent's folder or the staging folder exists but
// cannot be written to or is not a folder. Both of these may be missing.
func (Dir) CheckPlace(agent, root string) error {
	for _, path := range []string{root, filepath.Join(root, StagingFolder), filepath.Join(root, agent)} {
		if _, err := os.Lstat(path); path != root && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		there, err := openFolder(path)
		if err != nil {
			return err
		}
		there.Close()
		if err := unix.Access(path, unix.W_OK|unix.X_OK); path != root && err != nil {
			return fmt.Errorf("cannot write to the folder %s: %w", path, err)
		}
	}
	return nil
}

// IsRooted returns true: a folder is on one machine.
func (Dir) IsRooted(string) bool { return true }

// MaxBatch returns the largest number of files that one note covers.
func (Dir) MaxBatch() int { return maxFiles }

// Deliver stages the messages, stores the note, and moves the files in order. Each message fails alone. A message
// that failed is certainly not in the agent's folder.
func (Dir) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	d, err := openDrop(a)
	if err == nil {
		defer d.close()
		err = d.begin(a)
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(errs))
	}
	ls := d.stage(ctx, a, errs)
	if len(ls) == 0 {
		return errs
	}
	for i, err := range errs {
		if err != nil { // the note is stored with these messages too
			d.note.Back = append(d.note.Back, mark(a.Messages[i].ID))
		}
	}
	for i, err := range d.handOver(ctx, a, ls) {
		errs[ls[i].message] = err
	}
	return errs
}

// handOver stores the note and renames the staged files into the agent's folder. It returns one error per letter.
func (d *drop) handOver(ctx context.Context, a orchestrator.Attempt, ls []stagedLetter) []error {
	errs := make([]error, len(ls))
	if err := d.staging.Sync(); err != nil {
		d.discard(ls...)
		return slices.Repeat([]error{err}, len(ls))
	}
	if err := d.mark(ctx, a); err != nil {
		if errors.Is(err, orchestrator.ErrLeaseLost) {
			d.discard(ls...)
		}
		// The note may or may not be stored. Recover or the next attempt takes care of the files.
		return slices.Repeat([]error{err}, len(ls))
	}
	var arrived []int
	var back []stagedLetter
	for i, l := range ls {
		if errs[i] = context.Cause(ctx); errs[i] == nil {
			errs[i] = d.move(l)
		}
		if errs[i] == nil {
			arrived = append(arrived, i)
		} else if there, _ := d.staging.has(l.staged); there || errors.Is(errs[i], errNotStaged) {
			back = append(back, l)
		}
	}
	if len(arrived) > 0 {
		if err := d.sync(); err != nil {
			for _, i := range arrived {
				errs[i] = err // Recover syncs the files again
			}
		}
	}
	d.takeBack(ctx, a, back, len(arrived) == 0)
	return errs
}

// mark stores the note with the messages of the attempt.
func (d *drop) mark(ctx context.Context, a orchestrator.Attempt) error {
	text, err := json.Marshal(d.note)
	if err != nil {
		return err
	}
	return a.Mark(ctx, string(text))
}

// errNotStaged reports that a staged file does not exist.
var errNotStaged = errors.New("the staged file no longer exists")

// move moves one letter into the agent's folder. On an error the file stays staged and the agent's folder is
// unchanged.
func (d *drop) move(l stagedLetter) error {
	if err := d.staging.touch(l.staged); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s in %s", errNotStaged, l.staged, d.staging.Name())
	} else if err != nil {
		return err
	}
	path := filepath.Join(d.inbox.Name(), l.name)
	err := renameNew(d.staging, l.staged, d.inbox, l.name)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		if d.inbox.holds(l.name, l.text) {
			return d.staging.remove(l.staged) // somebody has already put it there
		}
		return fmt.Errorf("%s already exists and does not contain this message; remove it before the next attempt",
			path)
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%s and %s must be on the same file system, because Mailroom moves files in one step; give the agent its own root folder",
			d.inbox.Name(), d.root.Name())
	case errors.Is(err, fs.ErrNotExist):
		if there, err := d.staging.has(l.staged); err == nil && !there {
			return fmt.Errorf("%w: %s in %s", errNotStaged, l.staged, d.staging.Name())
		}
		return fmt.Errorf("%s was removed during the delivery", d.inbox.Name())
	}
	return fmt.Errorf("cannot move a message to %s: %w", path, err)
}

// sync makes the moves durable: first the new names in the agent's folder, then the removal from the staging
// folder.
func (d *drop) sync() error {
	if err := d.inbox.Sync(); err != nil {
		return err
	}
	return d.staging.Sync()
}

// takeBack records in the note that letters were not delivered, so that they may be retried or go elsewhere, and
// removes their files. The files stay until the note is corrected, because Recover must find them until then. If
// the note can be corrected, this attempt still has the lease, and no other attempt has moved the files.
func (d *drop) takeBack(ctx context.Context, a orchestrator.Attempt, back []stagedLetter, all bool) {
	if len(back) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	if all {
		if a.Mark(ctx, "") == nil {
			d.discard(back...)
		}
		return
	}
	for _, l := range back {
		d.note.Back = append(d.note.Back, mark(a.Messages[l.message].ID))
	}
	if d.mark(ctx, a) == nil {
		d.discard(back...)
	}
}

// Recover moves the file into the agent's folder if it is still staged. If the file is not staged, it was moved
// before. If the staging folder is no longer the recorded one and the agent's folder does not contain the message,
// Recover returns an error that wraps ErrUndecidable.
func (Dir) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	m := &a.Messages[0]
	if m.Mark == "" {
		return false, nil // the attempt recorded that it delivered nothing
	}
	var noted dirNote
	if json.Unmarshal([]byte(m.Mark), &noted) != nil || !isWord(noted.Owner) || !isWord(noted.Token) {
		return false, missed(a, "the record of the attempt cannot be read")
	}
	if slices.Contains(noted.Back, mark(m.ID)) {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	d, err := openDrop(a)
	if err != nil {
		return false, err
	}
	defer d.close()
	l := stagedLetter{staged: noted.staged(m.ID)}
	if l.name, err = letter.FileName(m.ID); err != nil {
		return false, err
	}
	l.text, _ = letter.Of(m).Encode() // only to compare: the staged file is complete, whatever became of the row
	if err := d.move(l); err != nil && !errors.Is(err, errNotStaged) {
		return false, err
	} else if err != nil && !d.inbox.holds(l.name, l.text) {
		now, err := d.sentinel(false)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err != nil || !noted.Sentinel.Same(now) {
			return false, missed(a, d.staging.Name()+" has been emptied or replaced since then")
		}
	}
	return true, d.sync()
}

// ClearStaged removes the staged files of messages that are no longer needed.
func (Dir) ClearStaged(database, address string, recipients []string,
	needed func() ([]orchestrator.Message, error)) error {
	if _, err := os.Lstat(filepath.Join(address, StagingFolder)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	root, err := openFolder(address)
	if err != nil {
		return err
	}
	defer root.Close()
	staging, err := root.stagingFolder()
	if err != nil {
		return err
	}
	defer staging.Close()
	return staging.clearStaged(database, recipients, needed)
}

// missed returns the error for a message whose fate is unknown, with the reason and advice.
func missed(a orchestrator.Attempt, what string) error {
	return fmt.Errorf("the result of an attempt to write to %s is unknown, and %s: %w. Ask %s whether the message arrived;"+
		" if it did not, replay the message", filepath.Join(a.Address, a.Recipient), what, orchestrator.ErrUndecidable, a.Recipient)
}
