package agenthost

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/store"
)

// Refusal records that a host was refused its hooks or tools because they were configured for another host.
type Refusal struct {
	Host     string // the host for which it was configured
	Seen     Seen   // the host in which it runs
	What     string // "hooks" or "tools"
	Agent    string // agent whose messages were refused
	Database string
	Folder   string // folder in which it ran
	At       time.Time
}

const (
	keepAgain  = time.Minute        // a record of the same refusal is not renewed within this time
	keptNotice = 7 * 24 * time.Hour // how long a refusal is worth reporting
)

// folder returns the folder with the records of refusals, below the user's state folder.
func folder(state string) string { return filepath.Join(state, "refused") }

// Keep records the time of the refusal in a file below the user's state folder, so that doctor can report it. If
// state is "", Keep does nothing.
func (r Refusal) Keep(state string) error {
	if state == "" {
		return nil
	}
	key := sha256.Sum256([]byte(strings.Join([]string{r.Host, r.Seen.Host, r.What, r.Agent, r.Database, r.Folder},
		"\x00")))
	path := filepath.Join(folder(state), hex.EncodeToString(key[:8])+".json")
	if info, err := os.Stat(path); err == nil && r.At.Sub(info.ModTime()).Abs() < keepAgain {
		return nil
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(folder(state), 0o700)
	}
	if err == nil {
		err = store.ReplaceFile(path, text, 0o600)
	}
	return err
}

// Refusals returns the refusals for a database in the week before now, newest first. It removes older records.
func Refusals(state, database string, now time.Time) (list []Refusal) {
	if state == "" {
		return nil
	}
	entries, _ := os.ReadDir(folder(state)) // there is none before the first
	for _, e := range entries {
		var r Refusal
		path := filepath.Join(folder(state), e.Name())
		text, err := os.ReadFile(path)
		switch {
		case err != nil || json.Unmarshal(text, &r) != nil: // another process may be writing it
		case now.Sub(r.At) >= keptNotice:
			os.Remove(path)
		case r.Database == database:
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Refusal) int { return b.At.Compare(a.At) })
	return list
}
