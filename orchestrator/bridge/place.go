package bridge

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"mailroom/orchestrator/letter"
)

// note holds the fields that matter here of the dir transport's note. An imported file has a note, too.
type note struct {
	Inbox letter.Identity `json:"inbox"`
	// File is the file's name, which need not be UTF-8. If empty, the name follows from the message's ID.
	File []byte `json:"file,omitempty"`
}

// identify returns the identity of a folder.
func identify(in *os.Root) (id letter.Identity, err error) {
	folder, err := in.Open(".")
	if err != nil {
		return id, err
	}
	defer folder.Close()
	return letter.Identify(folder)
}

// noteOf returns the note for a file in a folder.
func noteOf(in *os.Root, name string) (string, error) {
	id, err := identify(in)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(note{id, []byte(name)})
	return string(text), err
}

// moved returns the note mark with the folder and name of a file in place of the old ones.
func moved(in *os.Root, name, mark string) (string, error) {
	now, err := noteOf(in, name)
	if err != nil {
		return "", err
	}
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(mark), &fields) // a note written by hand may be invalid; its fields are then lost
	if err := json.Unmarshal([]byte(now), &fields); err != nil {
		return "", err
	}
	text, err := json.Marshal(fields)
	return string(text), err
}

// parseNote returns the folder and the name of a message's file. Error: an invalid note, which somebody wrote by
// hand, or one whose name contains a slash.
func parseNote(id, mark string) (folder letter.Identity, name string, err error) {
	var n note
	if err := json.Unmarshal([]byte(mark), &n); err != nil {
		return folder, "", err
	}
	if name := string(n.File); strings.Contains(name, "/") {
		return folder, "", fmt.Errorf("%q is not a valid file name", name)
	} else if name != "" {
		return n.Inbox, name, nil
	}
	name, err = letter.FileName(id)
	return n.Inbox, name, err
}

// FileName returns the name of a message's file in its recipient's folder, from the message's ID and its
// transport's mark. A file that another program wrote keeps its name. Error: an ID from which no name can be
// formed.
func FileName(id, mark string) (string, error) {
	if _, name, err := parseNote(id, mark); err == nil {
		return name, nil
	}
	return letter.FileName(id)
}
