package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
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
	if at, err = filepath.EvalSymlinks(path); errors.Is(err, fs.ErrNotExist) {
		return nil, path, nil
	} else if err != nil {
		return nil, path, err
	}
	text, err = os.ReadFile(at)
	return text, at, err
}

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
func (f *file) planRemove(database string) (change, error) {
	before, at, err := read(f.path)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	if before == nil {
		return change{path: at}, nil
	}
	if kept, err := hosts.ConnectionIn(database, at); err == nil && kept.After == hosts.Digest(before) {
		if kept.Before == nil {
			return change{at, before, nil}, nil
		}
		return change{at, before, []byte(*kept.Before)}, nil
	}
	after, err := f.remove(before)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	return change{at, before, after}, nil
}

func unreadable(path string, err error) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s cannot be changed: %v", path, err)
	return e.WithHint("Nothing was changed. Mend the file, and connect again")
}

// put writes a file, and beforehand keeps by what it can be undone: if the file is as connect left it, what stood there before
// that; otherwise what stands there without our entries.
func (c *change) put(f *file, h *host, at *place, own *connection) error {
	_, err := os.Stat(filepath.Dir(c.path))
	made, before := errors.Is(err, fs.ErrNotExist), c.before
	if last, err := hosts.ConnectionIn(own.database, c.path); err == nil && c.before != nil {
		made = last.Made
		if last.After == hosts.Digest(c.before) {
			if before = nil; last.Before != nil {
				before = []byte(*last.Before)
			}
		} else if before, err = f.remove(c.before); err != nil {
			return err
		}
	}
	keep := hosts.Connection{
		Program: h.name, Agent: own.agent, Folder: at.scope(), File: c.path, Command: own.program, After: hosts.Digest(c.after), Made: made,
	}
	if before != nil {
		keep.Before = new(string(before))
	}
	if err := keep.Save(own.database); err != nil {
		return err
	}
	return c.write()
}

// forget forgets by what a file can be undone, and removes its folder if connect has made that and nothing else is in it.
func (c *change) forget(database string) {
	kept, err := hosts.ConnectionIn(database, c.path)
	if err != nil {
		return
	}
	if kept.Made && c.after == nil {
		os.Remove(filepath.Dir(c.path))
	}
	kept.Forget(database)
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
