//go:build unix

package transport

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/letter"
)

const (
	// sentinel is a file in the staging folder. If it is missing or replaced, somebody emptied or recreated the
	// folder.
	sentinel     = "README"
	sentinelText = "Mailroom keeps messages in this folder until Mailroom moves them to the adjacent folders.\n" +
		"Do not move or delete the messages or this file.\n"
)

// drop holds the open folders and the note of an attempt.
type drop struct {
	root, staging, inbox folder
	note                 dirNote
}

// dirNote is the note that an attempt stores with its messages before it moves the files.
type dirNote struct {
	// Owner is a fingerprint of database and recipient. It is part of the names of all staged files of a message.
	Owner    string          `json:"owner"`
	Token    string          `json:"token"` // of the attempt
	Sentinel letter.Identity `json:"sentinel"`
	Inbox    letter.Identity `json:"inbox"`          // the agent's folder, for package bridge
	Back     []string        `json:"back,omitempty"` // fingerprints of messages that were not delivered
}

// stagedLetter is a message as a staged file.
type stagedLetter struct {
	message int // index in the attempt
	staged  string
	name    string // in the agent's folder
	text    []byte
}

// openDrop opens the folders of an attempt and creates those that may be created.
func openDrop(a orchestrator.Attempt) (d *drop, err error) {
	if name, err := orchestrator.CheckName("recipient", a.Recipient); err != nil || name != a.Recipient {
		return nil, fmt.Errorf("%q is not a valid folder name", a.Recipient)
	}
	d = &drop{}
	if d.root, err = openFolder(a.Address); err != nil {
		return nil, err
	}
	if d.staging, err = d.root.stagingFolder(); err == nil {
		d.inbox, err = d.root.sub(a.Recipient)
	}
	if err == nil {
		// The folders may have just been created, by this attempt or by one that was killed. Their names must be as
		// durable as the files in them.
		err = d.root.Sync()
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *drop) close() {
	for _, f := range []folder{d.root, d.staging, d.inbox} {
		f.Close() // closing a nil *os.File only returns an error
	}
}

// begin fills in the note of a new attempt and removes what earlier attempts left staged.
func (d *drop) begin(a orchestrator.Attempt) (err error) {
	d.note = dirNote{Owner: ownerOf(a.Database, a.Recipient), Token: rand.Text()}
	if slices.ContainsFunc(a.Messages, func(m orchestrator.Message) bool { return m.Attempt() > 1 || m.Crashes > 0 }) {
		if err := d.clearUp(a.Messages); err != nil {
			return err
		}
	}
	if d.note.Sentinel, err = d.sentinel(true); err != nil {
		return err
	}
	d.note.Inbox, err = letter.Identify(d.inbox.File)
	return err
}

// mark returns a fingerprint of a text that can be part of a file name.
func mark(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// ownerOf returns the fingerprint of a database and one of its recipients.
func ownerOf(database, recipient string) string { return mark(database + "\x00" + recipient) }

// staged returns the name of the staged file of a message.
func (n *dirNote) staged(id string) string { return n.Owner + "-" + mark(id) + "-" + n.Token }

// sentinel returns the identity of the sentinel file in the staging folder. Nobody but Mailroom has a reason to
// touch the file, so a different identity later means that the folder was emptied or replaced.
func (d *drop) sentinel(make bool) (id letter.Identity, err error) {
	file, err := d.staging.open(sentinel, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) && make {
		if err := d.staging.write(sentinel, []byte(sentinelText)); err != nil && !errors.Is(err, fs.ErrExist) {
			return id, err
		}
		file, err = d.staging.open(sentinel, unix.O_RDONLY)
	}
	if err != nil {
		return id, err
	}
	defer file.Close()
	return letter.Identify(file)
}

// clearUp removes the files that earlier attempts at these messages left staged. Those attempts can no longer use
// the files: this attempt has the lease, and a message with a note gets here only after Recover has found that
// nothing is staged under the note.
func (d *drop) clearUp(ms []orchestrator.Message) error {
	entries, err := d.staging.ReadDir(-1)
	if err != nil {
		return err
	}
	again := map[string]bool{}
	for i := range ms {
		again[d.note.Owner+"-"+mark(ms[i].ID)] = true
	}
	for _, e := range entries {
		if owner, message := stagedFor(e.Name()); again[owner+"-"+message] { // a file that is not ours has no owner
			if err := d.staging.remove(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// stagedFor returns the fingerprints in the name of a staged file, or "" if the name has another form.
func stagedFor(name string) (owner, message string) {
	owner, rest, _ := strings.Cut(name, "-")
	message, token, _ := strings.Cut(rest, "-")
	if len(owner) != 32 || len(message) != 32 || token == "" {
		return "", ""
	}
	return owner, message
}

// clearStaged removes the files staged from a database to these recipients, except those of the needed messages.
func (f folder) clearStaged(database string, recipients []string, needed func() ([]orchestrator.Message, error)) error {
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, name := range recipients {
		ours[ownerOf(database, name)] = true
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		owner, _ := stagedFor(e.Name())
		return !ours[owner]
	})
	if len(entries) == 0 {
		return nil
	}
	ms, err := needed()
	if err != nil {
		return err
	}
	stay := map[string]bool{}
	for i := range ms {
		stay[ownerOf(database, ms[i].Recipient)+mark(ms[i].ID)] = true
	}
	for _, e := range entries {
		if owner, message := stagedFor(e.Name()); !stay[owner+message] {
			if err := f.remove(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// stage writes the messages that can be encoded into the staging folder and stores the errors of the others in
// errs.
func (d *drop) stage(ctx context.Context, a orchestrator.Attempt, errs []error) (ls []stagedLetter) {
	for i := range a.Messages {
		m := &a.Messages[i]
		l := stagedLetter{message: i, staged: d.note.staged(m.ID)}
		if ctx.Err() != nil {
			errs[i] = context.Cause(ctx)
			continue
		}
		if l.text, errs[i] = letter.Of(m).Encode(); errs[i] != nil {
			continue
		}
		if l.name, errs[i] = letter.FileName(m.ID); errs[i] != nil {
			continue
		}
		if errs[i] = d.staging.write(l.staged, l.text); errs[i] != nil {
			d.discard(l)
			continue
		}
		ls = append(ls, l)
	}
	return ls
}

// discard removes staged files that no note refers to. The next attempt removes those that cannot be removed now.
func (d *drop) discard(ls ...stagedLetter) {
	for _, l := range ls {
		_ = d.staging.remove(l.staged) // see above
	}
}
