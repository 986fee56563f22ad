package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// record is what stood in a file before Mailroom was connected, so that it can be put back. It lies beside the database.
type record struct {
	Path   string  `json:"path"`
	Before *string `json:"before"` // nil: there was no file
	After  string  `json:"after"`  // SHA-256 of what connect wrote
	Folder bool    `json:"folder"` // connect made its folder
}

// recordOf returns where the record of a file lies.
func recordOf(database, path string) string {
	return filepath.Join(filepath.Dir(database), "connections", digest([]byte(path))[:16]+".json")
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
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
	if r, err := readRecord(recordOf(database, at)); err == nil && r.After == digest(before) {
		if r.Before == nil {
			return change{at, before, nil}, nil
		}
		return change{at, before, []byte(*r.Before)}, nil
	}
	after, err := f.remove(before)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	return change{at, before, after}, nil
}

func unreadable(path string, err error) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s cannot be changed: %v", path, err)
	return e.WithHint("Nothing was changed. Mend the file, or add by hand what --print shows")
}

func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// connectFile writes a file, and beforehand the record by which it can be undone: if the file is as connect left it, what stood
// there before that; otherwise what stands there without our entries.
func connectFile(database string, f *file, c *change) error {
	before := c.before
	_, err := os.Stat(filepath.Dir(c.path))
	folder := errors.Is(err, fs.ErrNotExist)
	if r, err := readRecord(recordOf(database, c.path)); err == nil && c.before != nil {
		folder = r.Folder
		if r.After == digest(c.before) {
			if before = nil; r.Before != nil {
				before = []byte(*r.Before)
			}
		} else if before, err = f.remove(c.before); err != nil {
			return err
		}
	}
	r := record{Path: c.path, After: digest(c.after), Folder: folder}
	if before != nil {
		r.Before = new(string(before))
	}
	text, err := orchestrator.JSON(r)
	if err != nil {
		return err
	}
	if err := replace(recordOf(database, c.path), text, 0o600); err != nil {
		return err
	}
	return c.write()
}

// forget removes the record of a file, and the file's folder if connect has made it and nothing else is in it.
func (c *change) forget(database string) {
	at := recordOf(database, c.path)
	if r, err := readRecord(at); err == nil && r.Folder && c.after == nil {
		os.Remove(filepath.Dir(c.path))
	}
	os.Remove(at)
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
	return replace(c.path, c.after, mode)
}

// replace writes a file so that it is there whole or not at all.
func replace(path string, text []byte, mode fs.FileMode) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(folder, ".mailroom-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return store.SyncFolder(folder)
}
