package connect

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// record describes what connect wrote into one configuration file of a host. It is kept so that the change can be
// undone and checked.
type record struct {
	Program      string   `json:"program"` // the host
	Agent        string   `json:"agent"`
	Vocabularies []string `json:"vocabularies"`
	choices
	Folder   string  `json:"folder"` // of the project; "" for all folders of the user
	File     string  `json:"file"`
	Database string  `json:"database"`
	ID       string  `json:"database_id"`
	Command  string  `json:"command"`        // path of Mailroom
	Host     string  `json:"host,omitempty"` // path of the host
	Before   *string `json:"before"`         // text of the file before; nil if it did not exist
	After    string  `json:"after"`          // digest of the written text
	Made     int     `json:"made_folders"`   // how many folders were created: the file's own and those above it
	page     string  // the file that contains this record
}

// moved reports whether the project's folder no longer exists.
func (r *record) moved() bool {
	_, err := os.Stat(r.Folder)
	return r.Folder != "" && isGone(err)
}

// cameTo reports whether a file is that of the record, moved to another folder together with its project.
func (r *record) cameTo(folder, file string, text []byte) bool {
	was, _ := filepath.Rel(r.Folder, r.File)
	is, _ := filepath.Rel(folder, file)
	return r.moved() && was == is && r.After == digest(text)
}

// book is the folder in which records are kept, one file each; "" keeps none. It is in the user's state folder, not
// beside a database: anybody may have made a database and the files beside it, but a record decides what is written
// into files.
type book string

func bookOf(env commands.Env) book {
	if state := stateOf(env); state != "" {
		return book(filepath.Join(state, "connections"))
	}
	return ""
}

// stateOf returns the user's state folder, or "" if there is none.
func stateOf(env commands.Env) string {
	if env.Distant != nil {
		return env.Distant.State
	}
	if trust := env.Ledger.Trust; trust != nil && trust.Folder != "" {
		return filepath.Dir(trust.Folder)
	}
	return ""
}

// page returns the path of a record. Each file of each host has its own record, because hosts may share a file.
func (b book) page(r *record) string {
	return filepath.Join(string(b), digest([]byte(r.Program + "\x00" + r.File))[:16]+".json")
}

// find returns the record of a host's file. If the file's folder was moved, find returns the record of the same file,
// with the same text, in the folder that no longer exists.
func (b book) find(program, folder, file string, text []byte) (r record, found bool) {
	all := slices.DeleteFunc(b.all(), func(r record) bool { return r.Program != program })
	i := slices.IndexFunc(all, func(r record) bool { return r.File == file })
	if i < 0 {
		i = slices.IndexFunc(all, func(r record) bool { return r.cameTo(folder, file, text) })
	}
	if i < 0 {
		return record{}, false
	}
	return all[i], true
}

// all returns the records, sorted by file. It leaves out records that cannot be read.
func (b book) all() (list []record) {
	if b == "" {
		return nil
	}
	entries, _ := os.ReadDir(string(b)) // the folder does not exist before the first record
	for _, e := range entries {
		var r record
		r.page = filepath.Join(string(b), e.Name())
		if text, err := os.ReadFile(r.page); err == nil && json.Unmarshal(text, &r) == nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b record) int {
		return slices.Compare([]string{a.Folder, a.File}, []string{b.Folder, b.File})
	})
	return list
}

// keep writes a record, and replaces an earlier record of the same file and host.
func (b book) keep(r *record) error {
	if b == "" {
		return errors.New("HOME or XDG_STATE_HOME must be set, because Mailroom needs a state folder to record how to undo the connection")
	}
	text, err := orchestrator.JSON(r)
	if err != nil {
		return err
	}
	r.page = b.page(r)
	return store.ReplaceFile(r.page, text, 0o600)
}

// drop removes a record.
func (b book) drop(r *record) { os.Remove(r.page) }

// dropAll removes the records of a host in a folder.
func (b book) dropAll(program, folder string) {
	for _, r := range b.all() {
		if r.Program == program && r.Folder == folder {
			b.drop(&r)
		}
	}
}
