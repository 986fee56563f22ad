package bridge

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"mailroom/orchestrator/letter"
)

// note is what the dir transport notes with a message, as far as it matters here; a file that was taken in has one,
// too.
type note struct {
	Inbox letter.Identity `json:"inbox"`
	// its name, which need not be UTF-8; none is the name that the message's id gives
	File []byte `json:"file,omitempty"`
}

// identify describes a folder.
func identify(in *os.Root) (id letter.Identity, err error) {
	folder, err := in.Open(".")
	if err != nil {
		return id, err
	}
	defer folder.Close()
	return letter.Identify(folder)
}

// noteOf is the note for a file that stands in a folder.
func noteOf(in *os.Root, name string) (string, error) {
	id, err := identify(in)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(note{id, []byte(name)})
	return string(text), err
}

// moved is a note with another place: that of the file of this name in a folder.
func moved(in *os.Root, name, mark string) (string, error) {
	now, err := noteOf(in, name)
	if err != nil {
		return "", err
	}
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(mark), &fields) // what was written by hand says nothing
	if err := json.Unmarshal([]byte(now), &fields); err != nil {
		return "", err
	}
	text, err := json.Marshal(fields)
	return string(text), err
}

// parseNote reads where a message was put: in which folder, and under which name. Error: a note that was written by
// hand, also one whose name leads elsewhere.
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

// FileName is the name of the file that a message has in its recipient's folder, by its id and the mark of its
// transport. One that another program wrote keeps the name that it came with. Error: an id that makes no name.
func FileName(id, mark string) (string, error) {
	if _, name, err := parseNote(id, mark); err == nil {
		return name, nil
	}
	return letter.FileName(id)
}
