package bridge

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"mailroom/orchestrator/letter"
)

// note holds the fields of the dir transport's note on a message that matter here. The message of an imported file
// has a note, too.
type note struct {
	Inbox letter.Identity `json:"inbox"`
	// the name of the file, which need not be UTF-8; if empty, the name follows from the message's id
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

// moved returns the note mark with another place: that of the file with the given name in a folder.
func moved(in *os.Root, name, mark string) (string, error) {
	now, err := noteOf(in, name)
	if err != nil {
		return "", err
	}
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(mark), &fields) // a note that was written by hand may be invalid
	if err := json.Unmarshal([]byte(now), &fields); err != nil {
		return "", err
	}
	text, err := json.Marshal(fields)
	return string(text), err
}

// parseNote returns the folder and the name under which a message was delivered. It returns an error for a note that
// was written by hand, or whose name contains a slash.
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

// FileName returns the name of a message's file in its recipient's folder, from the message's id and the mark of its
// transport. A file that another program wrote keeps its original name. It returns an error if no file name can be
// made from the id.
func FileName(id, mark string) (string, error) {
	if _, name, err := parseNote(id, mark); err == nil {
		return name, nil
	}
	return letter.FileName(id)
}
