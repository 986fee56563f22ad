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

// Refusal is that a host got nothing, since what it ran was configured for another.
type Refusal struct {
	Host     string // for which it was configured
	Seen     Seen   // in which it runs
	What     string // "hooks" or "tools"
	Agent    string // whose messages they were
	Database string
	Folder   string // in which it ran
	At       time.Time
}

const (
	keepAgain  = time.Minute        // how long what is kept of a refusal is recent enough
	keptNotice = 7 * 24 * time.Hour // how long a refusal is worth telling
)

// folder is where refusals are kept, below the user's state folder.
func folder(state string) string { return filepath.Join(state, "refused") }

// Keep keeps when it was last refused, in a file below the user's state folder, so that doctor can tell. In "" nothing
// is kept.
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

// Refusals lists those of a database that were kept in the last week before now, the newest first. It removes older
// ones.
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
