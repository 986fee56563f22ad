package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"syscall"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// file is a configuration file of a host, and what Mailroom has in it.
type file struct {
	path   string
	add    func(before []byte) ([]byte, error) // with our entries
	remove func(before []byte) ([]byte, error) // without them; nothing where nothing else is left
}

// change is what is to become of a file. nil is a file that is not there.
type change struct {
	path          string
	before, after []byte
}

// FileResult says what became of a file.
type FileResult struct {
	Path   string `json:"path"`
	Change string `json:"change"` // made, changed, removed, none
	Text   string `json:"text,omitempty"`
}

func (c *change) result() FileResult {
	r := FileResult{Path: c.path, Change: "changed"}
	switch {
	case string(c.before) == string(c.after) && (c.before == nil) == (c.after == nil):
		r.Change = "none"
	case c.before == nil:
		r.Change = "made"
	case c.after == nil:
		r.Change = "removed"
	}
	return r
}

// read returns a file's text, nil if there is none, and where it lies: a link is followed.
func read(path string) (text []byte, at string, err error) {
	at, err = filepath.EvalSymlinks(path)
	if isGone(err) {
		if to, link := os.Readlink(path); link == nil {
			return nil, path, fmt.Errorf("it is a link to %s, which is not there", to)
		}
		return nil, resolved(path), nil
	}
	if err != nil {
		return nil, path, err
	}
	info, err := os.Stat(at)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err == nil {
		text, err = os.ReadFile(at)
	}
	return text, at, err
}

// resolved returns where a file or folder lies that may be reached through links, as records have it. What is not there lies in its
// folder.
func resolved(path string) string {
	at, err := filepath.EvalSymlinks(path)
	if err == nil {
		return at
	}
	if folder := filepath.Dir(path); folder != path {
		return filepath.Join(resolved(folder), filepath.Base(path))
	}
	return path
}

// isGone reports whether an error says that a file or folder is not there, be it that what it was in is no folder any more.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// carried is what stands in every file that connect has written: the tools, a hook, or the words of the plugin.
var carried = regexp.MustCompile(connected.String() + `|"command":\s*"[^";&|]* hook \w+ --host \w+ --as |` + regexp.QuoteMeta(pluginWords))

// planAdd says what becomes of a file when the host is connected.
func (f *file) planAdd() (change, error) {
	before, at, err := read(f.path)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	after, err := f.add(before)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	return change{at, before, after}, nil
}

// planRemove says what becomes of a file when the host is disconnected: if nothing was changed since, what stood there before.
func (f *file) planRemove(at *place, b book) (change, error) {
	before, path, err := read(f.path)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	if before == nil {
		return change{path: path}, nil
	}
	kept, found := b.find(at.scope(), path, before)
	if found && kept.After == digest(before) {
		if kept.Before == nil {
			return change{path, before, nil}, nil
		}
		return change{path, before, []byte(*kept.Before)}, nil
	}
	if !found && !carried.Match(before) {
		return change{path, before, before}, nil
	}
	after, err := f.remove(before)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	return change{path, before, after}, nil
}

func unreadable(path string, err error) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s cannot be changed: %v", path, err)
	return e.WithHint("Nothing was changed. Mend the file, and try again")
}

// put records how to undo the change, and then writes the file. If the file is as connect left it, undoing puts back what stood there
// before that; otherwise what stands there now, without our entries.
func (c *change) put(f *file, h *host, at *place, own *connection) (err error) {
	made, before := missing(filepath.Dir(c.path)), c.before
	last, found := own.book.find(at.scope(), c.path, c.before)
	if found && c.before != nil {
		made = last.Made
	}
	switch {
	case c.before == nil:
	case found && last.After == digest(c.before):
		if before = nil; last.Before != nil {
			before = []byte(*last.Before)
		}
	case found || carried.Match(c.before):
		if before, err = f.remove(c.before); err != nil {
			return err
		}
	}
	keep := own.record(h, at)
	keep.File, keep.After, keep.Made = c.path, digest(c.after), made
	if before != nil {
		keep.Before = new(string(before))
	}
	if err := own.book.keep(&keep); err != nil {
		return err
	}
	if found && last.File != c.path { // it came here with its folder
		own.book.drop(&last)
	}
	err = c.write()
	if err != nil && !found {
		own.book.drop(&keep)
	}
	return err
}

// missing counts the folders of a path that are not there.
func missing(folder string) (n int) {
	for ; ; n++ {
		if _, err := os.Stat(folder); !isGone(err) {
			return n
		}
		folder = filepath.Dir(folder)
	}
}

// stale reports whether nothing is kept of a file, or what is kept is of another folder, which is gone, or tells of an older connection.
func (c *change) stale(h *host, at *place, own *connection) bool {
	kept, found := own.book.find(at.scope(), c.path, c.before)
	now := own.record(h, at)
	now.File, now.Before, now.After, now.Made = c.path, kept.Before, kept.After, kept.Made
	return !found || !reflect.DeepEqual(kept, now)
}

// forget forgets by what a file can be undone, and removes the folders that connect has made for it if nothing else is in them.
func (c *change) forget(at *place, b book) {
	kept, found := b.find(at.scope(), c.path, c.before)
	if !found {
		return
	}
	for folder := filepath.Dir(c.path); kept.Made > 0 && c.after == nil; kept.Made-- {
		os.Remove(folder)
		folder = filepath.Dir(folder)
	}
	b.drop(&kept)
}

// write puts the new text in the place of the old.
func (c *change) write() error {
	if c.after == nil {
		if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(c.path); err == nil {
		mode = info.Mode().Perm()
		if mode&0o200 == 0 {
			return fmt.Errorf("%s is read-only", c.path)
		}
	}
	return store.ReplaceFile(c.path, c.after, mode)
}
