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

// record is what connect has written into one configuration file of a host. It is kept so that it can be undone, and
// looked after.
type record struct {
	Program      string   `json:"program"` // the host
	Agent        string   `json:"agent"`
	Vocabularies []string `json:"vocabularies"`
	choices
	Folder   string  `json:"folder"` // of the project; "" is all of the user's
	File     string  `json:"file"`
	Database string  `json:"database"`
	ID       string  `json:"database_id"`
	Command  string  `json:"command"`        // where Mailroom lies
	Host     string  `json:"host,omitempty"` // where the host lies
	Before   *string `json:"before"`         // what stood in the file before; nil: there was none
	After    string  `json:"after"`          // digest of what was written
	Made     int     `json:"made_folders"`   // how many folders were made, the file's own and those above it
	page     string  // the file in which this is kept
}

// moved reports whether the project's folder is not there any more.
func (r *record) moved() bool {
	_, err := os.Stat(r.Folder)
	return r.Folder != "" && isGone(err)
}

// cameTo reports whether a file is the record's, which has come into another folder with all of the project.
func (r *record) cameTo(folder, file string, text []byte) bool {
	was, _ := filepath.Rel(r.Folder, r.File)
	is, _ := filepath.Rel(folder, file)
	return r.moved() && was == is && r.After == digest(text)
}

// book is the folder in which records are kept, one file each; "" keeps none. It lies in the user's state folder and
// not beside a database: a database, and what lies beside it, may be of anybody's making, and a record says what is
// written into files.
type book string

func bookOf(env commands.Env) book {
	if state := stateOf(env); state != "" {
		return book(filepath.Join(state, "connections"))
	}
	return ""
}

// stateOf returns the user's state folder; "" if there is none.
func stateOf(env commands.Env) string {
	if env.Distant != nil {
		return env.Distant.State
	}
	if trust := env.Ledger.Trust; trust != nil && trust.Folder != "" {
		return filepath.Dir(trust.Folder)
	}
	return ""
}

// page returns where a record is kept: one for each file of each host, since hosts may share a file.
func (b book) page(r *record) string {
	return filepath.Join(string(b), digest([]byte(r.Program + "\x00" + r.File))[:16]+".json")
}

// find finds the record of a host's file. If the file's folder was moved, it finds that of the same file, with the same text,
// in the folder that is gone.
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

// all lists the records by their files. Those that cannot be read are left out.
func (b book) all() (list []record) {
	if b == "" {
		return nil
	}
	entries, _ := os.ReadDir(string(b)) // there is none before the first
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

// keep keeps a record, in the place of another of its host's file.
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

// dropAll removes those of a host in a folder.
func (b book) dropAll(program, folder string) {
	for _, r := range b.all() {
		if r.Program == program && r.Folder == folder {
			b.drop(&r)
		}
	}
}
