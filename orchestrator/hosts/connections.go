package hosts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Connection is what `mailroom connect` has written into one configuration file of a host. It is kept beside the database, so that
// it can be undone, and looked after.
type Connection struct {
	Program string  `json:"program"` // the host
	Agent   string  `json:"agent"`
	Folder  string  `json:"folder"` // of the project; "" is all of the user's
	File    string  `json:"file"`
	Command string  `json:"command"` // where this program lies
	Before  *string `json:"before"`  // what stood in the file before; nil: there was none
	After   string  `json:"after"`   // digest of what was written
	Made    bool    `json:"made"`    // so was the file's folder
}

// Digest tells texts of files apart.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// recordOf returns where it is kept.
func recordOf(database, file string) string {
	return filepath.Join(filepath.Dir(database), "connections", Digest([]byte(file))[:16]+".json")
}

// ConnectionIn returns what was written into a file. Errors: those of the system, such as fs.ErrNotExist if nothing was.
func ConnectionIn(database, file string) (Connection, error) {
	return readConnection(recordOf(database, file))
}

func readConnection(record string) (c Connection, err error) {
	text, err := os.ReadFile(record)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// Connections lists all, by their files. Records that cannot be read are left out.
func Connections(database string) (list []Connection) {
	records, _ := filepath.Glob(filepath.Join(filepath.Dir(recordOf(database, "")), "*.json"))
	for _, record := range records {
		if c, err := readConnection(record); err == nil {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b Connection) int {
		return slices.Compare([]string{a.Folder, a.File}, []string{b.Folder, b.File})
	})
	return list
}

// Save keeps it.
func (c *Connection) Save(database string) error {
	text, err := orchestrator.JSON(c)
	if err != nil {
		return err
	}
	return store.ReplaceFile(recordOf(database, c.File), text, 0o600)
}

// Forget does not keep it any more.
func (c *Connection) Forget(database string) { os.Remove(recordOf(database, c.File)) }
