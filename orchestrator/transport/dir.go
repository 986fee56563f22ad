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

// Dir writes each message as a file of its own, `{root}/{agent}/{id}.json`, in document 002's form (package letter).
// Its address is the root: `--deliver dir:ROOT`; without one it is `.claude/session/messages`.
//
// Nothing but whole files ever stands in an agent's folder. The agent reads a file and removes it when it is done. In
// the order of their modification times, the files of one sender are in the order in which they were sent.
//
// A message is staged first: written and synced in `{root}/.mailroom`, noted with the message, and then renamed into
// the agent's folder, which happens once. So after a crash a file that is still staged was not delivered, and one that
// is not was, whether or not the agent has taken it already. That is so as long as nobody else touches `.mailroom`:
// when it was emptied or replaced meanwhile, and the message is not in the agent's folder, the message fails, saying
// so. A single staged file that somebody removes by hand during such a crash cannot be told from one that was
// delivered.
//
// The folder of an agent is made when it is missing, the root is not: it could be on a disk that is not mounted.
// Folders are made with mode 0700, files with 0600. An agent's folder must be on the root's file system, and must not
// be a link. Files that are not ours are never replaced.
type Dir struct{}

const (
	// defaultRoot is the root of an address that names none.
	defaultRoot = ".claude/session/messages"

	// StagingFolder is the folder in the root for files on their way.
	StagingFolder = ".mailroom"
)

// maxFiles is the largest batch: the files of one note.
const maxFiles = 100

// Check makes the path absolute and resolves symbolic links in it. It makes the folder if it is not there, and tries
// whether files can be made in it.
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

// CheckPlace refuses a root that is gone, and what stands where the agent's folder or the one for files on their way
// would be and cannot be written, or is no folder. There need not be one yet.
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

// IsRooted reports true: a folder is on one machine.
func (Dir) IsRooted(string) bool { return true }

// MaxBatch is the most files of one note.
func (Dir) MaxBatch() int { return maxFiles }

// Deliver stages the messages, notes that, and hands them over in their order. Each fails alone; what failed is
// certainly not in the agent's folder.
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
		if err != nil { // the note is stored with these too
			d.note.Back = append(d.note.Back, mark(a.Messages[i].ID))
		}
	}
	for i, err := range d.handOver(ctx, a, ls) {
		errs[ls[i].message] = err
	}
	return errs
}

// handOver notes what is staged and renames it into the agent's folder. It returns one error per letter.
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
		return slices.Repeat([]error{err}, len(ls)) // whether the note is stored cannot be known: Recover or the next attempt sees to the files
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
				errs[i] = err // Recover syncs them again
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

// errNotStaged reports a staged file that is not there.
var errNotStaged = errors.New("the staged file no longer exists")

// move hands over one letter. On an error it stays staged, and the agent's folder as it was.
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
			return d.staging.remove(l.staged) // somebody has put it there already
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

// sync makes what was handed over durable: first that it is in the agent's folder, then that it is staged no more.
func (d *drop) sync() error {
	if err := d.inbox.Sync(); err != nil {
		return err
	}
	return d.staging.Sync()
}

// takeBack corrects the note for letters that were not handed over, so that they may be tried anew or go elsewhere, and
// removes their files. Until the note is corrected Recover must find them. That it can be corrected shows that this
// attempt still has the lease, and that nobody else has handed them over.
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

// Recover hands over the file if it is still staged; if it is not, it was handed over before. A staging folder that is
// not the noted one any more leaves it open, unless the message stands in the agent's folder.
func (Dir) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	m := &a.Messages[0]
	if m.Mark == "" {
		return false, nil // the attempt said itself that it handed nothing over
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
	l.text, _ = letter.Of(m).Encode() // only to compare: what is staged is whole, whatever became of the row
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

// ClearStaged removes staged files of messages that are not needed any more.
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

// missed says why it cannot be known what became of a message, and what to do.
func missed(a orchestrator.Attempt, what string) error {
	return fmt.Errorf("the result of an attempt to write to %s is unknown, and %s: %w. Ask %s whether the message arrived;"+
		" if it did not, replay the message", filepath.Join(a.Address, a.Recipient), what, orchestrator.ErrUndecidable, a.Recipient)
}
