package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// record is what connect has written into one configuration file of a host. It is kept beside the database, so that it can be
// undone, and looked after.
type record struct {
	Program string  `json:"program"` // the host
	Agent   string  `json:"agent"`
	Folder  string  `json:"folder"` // of the project; "" is all of the user's
	File    string  `json:"file"`
	Command string  `json:"command"`        // where Mailroom lies
	Host    string  `json:"host,omitempty"` // where the host lies
	Ask     bool    `json:"ask,omitempty"`  // the host asks before a tool is used
	Before  *string `json:"before"`         // what stood in the file before; nil: there was none
	After   string  `json:"after"`          // digest of what was written
	Made    int     `json:"made_folders"`   // how many folders were made, the file's own and those above it
}

// digest tells texts of files apart.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// recordOf returns where it is kept.
func recordOf(database, file string) string {
	return filepath.Join(filepath.Dir(database), "connections", digest([]byte(file))[:16]+".json")
}

// recordIn finds the record of a file. If the file's folder was moved, it finds that of the same file, with the same text, in the folder
// that is gone. Without a database nothing is kept.
func recordIn(database, folder, file string, text []byte) (r record, found bool) {
	if database == "" {
		return record{}, false
	}
	if c, err := readRecord(recordOf(database, file)); err == nil {
		return c, true
	}
	for _, c := range records(database) {
		was, _ := filepath.Rel(c.Folder, c.File)
		is, _ := filepath.Rel(folder, file)
		if c.moved() && was == is && c.After == digest(text) {
			return c, true
		}
	}
	return record{}, false
}

// moved reports whether the project's folder is not there any more.
func (c *record) moved() bool {
	_, err := os.Stat(c.Folder)
	return c.Folder != "" && errors.Is(err, fs.ErrNotExist)
}

func readRecord(record string) (c record, err error) {
	text, err := os.ReadFile(record)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// records lists all, by their files. Those that cannot be read are left out.
func records(database string) (list []record) {
	folder := filepath.Dir(recordOf(database, ""))
	entries, _ := os.ReadDir(folder) // there is none before the first
	for _, e := range entries {
		if r, err := readRecord(filepath.Join(folder, e.Name())); err == nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b record) int {
		return slices.Compare([]string{a.Folder, a.File}, []string{b.Folder, b.File})
	})
	return list
}

// save keeps it.
func (c *record) save(database string) error {
	text, err := orchestrator.JSON(c)
	if err != nil {
		return err
	}
	return store.ReplaceFile(recordOf(database, c.File), text, 0o600)
}

// forgetAll forgets what was written for a host in a folder.
func forgetAll(database, program, folder string) {
	for _, r := range records(database) {
		if r.Program == program && r.Folder == folder {
			r.forget(database)
		}
	}
}

// forget does not keep it any more.
func (c *record) forget(database string) { os.Remove(recordOf(database, c.File)) }
