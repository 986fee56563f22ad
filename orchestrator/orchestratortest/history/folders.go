package history

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folder describes where a dir transport delivers an agent's messages, and where their reader moves them.
type Folder struct {
	Recipient, Inbox, Taken string
}

// readFolder reads the files of a folder, including those that were taken away, in the order of their modification
// times, which is the order of their arrival. An incomplete file gets an ID that no message has.
func (f *facts) readFolder(folder Folder) error {
	type file struct {
		path, name string
		at         int64
	}
	var files []file
	for _, in := range []string{folder.Inbox, folder.Taken} {
		entries, err := os.ReadDir(in)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				return err
			}
			files = append(files, file{filepath.Join(in, e.Name()), e.Name(), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(files,
		func(a, b file) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.name, b.name)) })
	where := "the folder of " + folder.Recipient
	for i, file := range files {
		content, err := os.ReadFile(file.path)
		if err != nil {
			return err
		}
		var l struct {
			ID      string `json:"id"`
			To      string `json:"to"`
			Payload struct {
				Token string `json:"token"`
			} `json:"payload"`
		}
		if json.Unmarshal(content, &l) != nil || l.ID == "" {
			l.ID = file.path // no message has this ID
		}
		a := arrival{where, "dir", int64(i + 1), l.ID, l.To, l.Payload.Token}
		f.arrivals[where] = append(f.arrivals[where], a)
		m := f.message(l.ID)
		m.lines = append(m.lines, a)
	}
	return nil
}
