package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Joined is the record that this user has joined a place for a folder. A file in the folder names the place, and is
// valid only with such a record, so that a cloned repository cannot bring a place with it.
type Joined struct {
	Folder string `json:"folder"`
	Place  string `json:"place"`
	Pin    string `json:"pin,omitempty"`
	Agent  string `json:"agent,omitempty"` // agent to act as; "" is the user who logs in there
	Token  string `json:"token,omitempty"`
}

// Book is the folder that holds the records, one file each, readable by this user only.
type Book string

func (b Book) page(folder string) string {
	name := sha256.Sum256([]byte(folder))
	return filepath.Join(string(b), hex.EncodeToString(name[:8])+".json")
}

// In returns the place that a folder has joined. found is false if it has joined none.
func (b Book) In(folder string) (j Joined, found bool) {
	text, err := os.ReadFile(b.page(folder))
	found = b != "" && err == nil && json.Unmarshal(text, &j) == nil && j.Folder == folder
	return j, found
}

// Of returns the records of a place.
func (b Book) Of(place string) (list []Joined) {
	entries, _ := os.ReadDir(string(b)) // the folder does not exist before the first join
	for _, e := range entries {
		var j Joined
		if text, err := os.ReadFile(filepath.Join(string(b), e.Name())); err == nil && json.Unmarshal(text, &j) == nil && j.Place == place {
			list = append(list, j)
		}
	}
	return list
}

// folders creates the folders into which Keep writes, and returns them.
func (b Book) folders(folder string) (list []string, err error) {
	if b == "" {
		return nil, errors.New("neither HOME nor XDG_STATE_HOME is set")
	}
	list = []string{string(b), filepath.Dir(commands.PlaceFile(folder))}
	if info, err := os.Lstat(list[1]); err == nil && !info.IsDir() { // a repository may contain a link
		return nil, errors.New(list[1] + " is not a folder")
	}
	for _, at := range list {
		if err := os.MkdirAll(at, 0o700); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Keep stores a record and writes the file that names the place into the folder.
func (b Book) Keep(j Joined) error {
	text, err := orchestrator.JSON(j)
	if err == nil {
		_, err = b.folders(j.Folder)
	}
	if err == nil {
		err = store.ReplaceFile(b.page(j.Folder), text, 0o600)
	}
	file := commands.PlaceFile(j.Folder)
	if err == nil {
		err = store.ReplaceFile(file, []byte(j.Place+"\n"), 0o600)
	}
	if err != nil {
		return err
	}
	ignore := filepath.Join(filepath.Dir(file), ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, os.ErrNotExist) {
		return os.WriteFile(ignore, []byte("*\n"), 0o600)
	}
	return nil
}

// Check returns an error if Keep could not write for a folder. It leaves no files.
func (b Book) Check(folder string) error {
	file := commands.PlaceFile(folder)
	_, before := os.Lstat(filepath.Dir(file))
	list, err := b.folders(folder)
	if err != nil {
		return err
	}
	for _, at := range list {
		f, err := os.CreateTemp(at, ".place-")
		if err != nil {
			return err
		}
		f.Close()
		os.Remove(f.Name())
	}
	if before != nil {
		os.Remove(filepath.Dir(file)) // an empty folder of a project
	}
	return nil
}

// Forget removes the record of a folder and the file in the folder.
func (b Book) Forget(folder string) error {
	file := commands.PlaceFile(folder)
	err := os.Remove(file)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if entries, _ := os.ReadDir(filepath.Dir(file)); err == nil && len(entries) == 1 && entries[0].Name() == ".gitignore" {
		os.RemoveAll(filepath.Dir(file)) // created by Keep
	}
	return errors.Join(err, os.Remove(b.page(folder)))
}

// maxPlace is the maximum size of the file that names a place, in bytes.
const maxPlace = 4096

// Resolved returns a folder with symbolic links resolved. Records use resolved folders.
func Resolved(folder string) string {
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		return real
	}
	return folder
}

// Named returns the place that a file names, if its folder has joined the place. Otherwise it returns
// permission_denied.
func (b Book) Named(file string) (j Joined, err error) {
	folder := Resolved(filepath.Dir(filepath.Dir(file)))
	text, err := os.ReadFile(file)
	if err != nil {
		return Joined{}, err
	}
	place := strings.TrimSpace(string(text[:min(len(text), maxPlace)]))
	j, found := b.In(folder)
	if !found || j.Place != place {
		return Joined{}, orchestrator.Errorf(orchestrator.PermissionDenied, "nothing was sent: %s names the database %s, but this folder is not joined to that database", file,
			orchestrator.Clip(place)).
			WithHint("If the database is yours, join it: run the command that `mailroom invite` prints on the machine with the database, or `mailroom join ssh://HOST/PATH`. Otherwise, delete the file")
	}
	return j, nil
}
