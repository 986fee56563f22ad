package bridge

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/letter"
)

// private is the folder in the root that only Mailroom uses. The dir transport stages its files there.
const private = ".mailroom"

// binPrefix begins the name of a bin, taken.FOLDER.RANDOM. Names of inbox folders contain no dot.
const binPrefix = "taken."

// bin is a folder in private for files that a check removes from an inbox folder. They stay there until it is
// certain that they have the content that was read.
type bin struct {
	*os.Root
	path string // below the root
}

// remove removes a file whose message is stored, identified by its text. By now another file may have the name,
// because the writer wrote the next message over it or another watch removed it. Therefore remove first moves the
// file to a folder where nobody writes, checks its content there, and puts it back if it is not the text that was
// read. Errors: errMoved; those of the file system.
func (p *pass) remove(in *os.Root, folder string, f file, text []byte) error {
	if _, err := in.Lstat(f.name); errors.Is(err, fs.ErrNotExist) {
		return errMoved
	}
	if p.bin == nil {
		if err := p.openBin(folder); err != nil {
			return err
		}
	}
	err := between(in, p.bin.Root, func(from, to int) error { return unix.Renameat(from, f.name, to, f.name) })
	if errors.Is(err, fs.ErrNotExist) {
		return errMoved
	}
	if err != nil {
		return err
	}
	if there, rerr := f.read(p.bin.Root, false); rerr == nil && bytes.Equal(there, text) {
		err = p.bin.Remove(f.name)
	} else if err = putBack(p.bin.Root, in, f.name); err == nil {
		return errMoved
	}
	p.restored = p.restored && err == nil
	return err
}

// openBin creates and opens a bin for a folder. If private does not exist, somebody may be removing the root;
// openBin then creates nothing until the next check. Error: errMoved.
func (p *pass) openBin(folder string) (err error) {
	b := &bin{path: private + "/" + binPrefix + folder + "." + rand.Text()}
	err = p.root.Mkdir(b.path, 0o700)
	if missed := p.binMissed; errors.Is(err, fs.ErrNotExist) {
		if p.binMissed = true; !missed {
			return errMoved
		}
		err = p.root.MkdirAll(b.path, 0o700)
	}
	if err != nil {
		return err
	}
	p.binMissed = false
	if b.Root, err = p.root.OpenRoot(b.path); err == nil {
		p.bin = b
	}
	return err
}

// closeBin closes a folder's bin and removes it if it is empty. restore handles the files in a remaining bin.
func (p *pass) closeBin() {
	if p.bin != nil {
		p.bin.Close()
		_ = p.root.Remove(p.bin.path) // fails if it is not empty
		p.bin = nil
	}
}

// between calls f with the descriptors of two folders, which stay valid if somebody moves the folders. os.Root
// renames and links only below itself, and by paths.
func between(a, b *os.Root, f func(a, b int) error) error {
	from, err := a.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := b.Open(".")
	if err != nil {
		return err
	}
	defer to.Close()
	return f(int(from.Fd()), int(to.Fd()))
}

// putBack moves a file from a bin into an inbox folder without replacing anything. If its name is taken, or if the
// file system has no hard links, the file gets a new name. putBack may be repeated, even after a kill in the
// middle.
func putBack(bin, in *os.Root, name string) error {
	return between(bin, in, func(from, to int) error {
		err := unix.Linkat(from, name, to, name, 0)
		if errors.Is(err, fs.ErrExist) {
			mine, merr := bin.Lstat(name)
			if there, terr := in.Lstat(name); merr == nil && terr == nil && os.SameFile(mine, there) {
				err = nil
			}
		}
		if err == nil {
			return unix.Unlinkat(from, name, 0)
		}
		return unix.Renameat(from, name, to, rand.Text()+letter.Suffix)
	})
}

// restore puts back the files in the bins of watches that were killed. Files that were already imported are
// recognized and removed again. It does no harm to the bins of a watch that is alive.
func (p *pass) restore() error {
	entries, err := fs.ReadDir(p.root.FS(), private)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), binPrefix); ok {
			folder, _, _ := strings.Cut(rest, ".")
			if rerr := p.restoreBin(e.Name(), folder); rerr != nil {
				err = errors.Join(err, fmt.Errorf("cannot restore the files in %s: %w", p.path(private, e.Name()), rerr))
			}
		}
	}
	return err
}

// restoreBin puts the files in a bin back into their folder and removes the bin.
func (p *pass) restoreBin(name, folder string) error {
	path := private + "/" + name
	from, err := p.root.OpenRoot(path)
	if err != nil {
		return err
	}
	defer from.Close()
	files, err := fs.ReadDir(from.FS(), ".")
	if err != nil {
		return err
	}
	if len(files) > 0 {
		if err := p.root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if info, err := p.root.Lstat(folder); err != nil || !info.IsDir() {
			return errors.Join(err, fmt.Errorf("%s is not a folder", p.path(folder, "")))
		}
		in, err := p.root.OpenRoot(folder)
		if err != nil {
			return err
		}
		defer in.Close()
		for _, f := range files {
			if err := putBack(from, in, f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	_ = p.root.Remove(path) // another watch may have put a file into it
	return nil
}
