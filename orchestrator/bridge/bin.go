package bridge

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"mailroom/orchestrator/letter"
)

// private is the folder of the root in which nobody but Mailroom has business; the dir transport stages its files there.
const private = ".mailroom"

// A bin is a folder in private that holds the files which a look removes from one inbox folder, until it is certain that they
// are what was read. Its name is taken.FOLDER.RANDOM; no name of an inbox folder has a dot.
const binPrefix = "taken."

// remove removes a file whose message is on disk, by its text. Its name may be another file's by now, since the writer may
// have written the next message over it, or after another watch removed it. So it is moved first to where nobody writes,
// looked at there, and put back if it is not what was read. Errors: errMoved; those of the file system.
func (p *pass) remove(folder string, f file, text []byte) error {
	if p.bin == "" {
		bin := path.Join(private, binPrefix+folder+"."+rand.Text())
		if err := p.root.MkdirAll(bin, 0o700); err != nil {
			return err
		}
		p.bin = bin
	}
	name, moved := path.Join(folder, f.name), path.Join(p.bin, f.name)
	err := p.root.Rename(name, moved)
	if errors.Is(err, fs.ErrNotExist) {
		return errMoved
	}
	if err != nil {
		return err
	}
	if there, rerr := (file{moved, f.info}).read(p.root, false); rerr == nil && bytes.Equal(there, text) {
		err = p.root.Remove(moved)
	} else if err = p.putBack(moved, name); err == nil {
		return errMoved
	}
	p.restored = p.restored && err == nil
	return err
}

// closeBin ends the use of a folder's bin. One that still holds something stays, for restore.
func (p *pass) closeBin() {
	if p.bin != "" {
		_ = p.root.Remove(p.bin) // fails when it is not empty
		p.bin = ""
	}
}

// putBack moves a file from a bin to where it was, and replaces nothing there. When its name is taken, or when the file system
// has no hard links, it gets a new one. It may be repeated, also after a kill in the middle.
func (p *pass) putBack(from, to string) error {
	err := p.root.Link(from, to)
	if errors.Is(err, fs.ErrExist) {
		mine, merr := p.root.Lstat(from)
		if there, terr := p.root.Lstat(to); merr == nil && terr == nil && os.SameFile(mine, there) {
			err = nil
		}
	}
	if err == nil {
		return p.root.Remove(from)
	}
	return p.root.Rename(from, path.Join(path.Dir(to), rand.Text()+letter.Suffix))
}

// restore puts back what a watch that was killed had in its bins. What was taken in already is known then, and goes again. One
// that is alive loses nothing by it either.
func (p *pass) restore() error {
	bins, err := fs.ReadDir(p.root.FS(), private)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range bins {
		if rest, ok := strings.CutPrefix(e.Name(), binPrefix); ok {
			bin := path.Join(private, e.Name())
			folder, _, _ := strings.Cut(rest, ".")
			if rerr := p.empty(bin, folder); rerr != nil {
				err = errors.Join(err, fmt.Errorf("putting back what is in %s: %w", p.path(bin, ""), rerr))
			}
		}
	}
	return err
}

// empty puts what is in a bin back into its folder, and removes the bin.
func (p *pass) empty(bin, folder string) error {
	files, err := fs.ReadDir(p.root.FS(), bin)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		if err := p.root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if info, err := p.root.Lstat(folder); err != nil || !info.IsDir() {
			return errors.Join(err, fmt.Errorf("%s is no folder", p.path(folder, "")))
		}
	}
	for _, f := range files {
		if err := p.putBack(path.Join(bin, f.Name()), path.Join(folder, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	_ = p.root.Remove(bin) // another watch may have put something into it
	return nil
}
