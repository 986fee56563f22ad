package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mailroom/orchestrator/hosts"
)

// Quiet keeps a note, in a file, of each session that had nothing to show after a tool call. While nobody commits and
// nothing is due, the hooks after its next calls need not open the database, which is most of what a hook costs. nil
// keeps no notes.
type Quiet struct {
	Folder   string // of the files
	Database string
	As       string // who the caller is said to be

	// State returns a text that is another one after any commit, see sqlite.State.
	State func(database string) (state string, known bool)
}

// leftOver is the age of a note whose session has ended: none is worth anything after a minute.
const leftOver = time.Hour

// note is the note of one session. nil is none, and stays so.
type note struct {
	file  string
	state string // of the database when the event came
}

// kept is what the file of a note holds.
type kept struct {
	Since, Until time.Time // by this machine's clock
	State        string
}

// of returns the note of the session in which an event happens; nil unless that follows a tool call. Any other event
// removes the note, and the start of a session those that are left over. The host's process and the agent are part of
// the key, since a session's id may be used again.
func (q *Quiet) of(h *Host, event string, input Input) *note {
	if q == nil || q.Folder == "" || input.Subagent != "" || input.Session == "" {
		return nil
	}
	of := h.process()
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %s", q.Database, h.Name, q.As, input.Session, of.PID,
		of.Born))
	n := &note{file: filepath.Join(q.Folder, hex.EncodeToString(key[:16]))}
	switch h.Kind(event) {
	case hosts.Worked:
	case hosts.Started:
		q.sweep()
		fallthrough
	default:
		os.Remove(n.file)
		return nil
	}
	var known bool
	if n.state, known = q.State(q.Database); !known {
		return nil
	}
	return n
}

// sweep removes the notes that are left over.
func (q *Quiet) sweep() {
	list, _ := os.ReadDir(q.Folder)
	for _, entry := range list {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > leftOver {
			os.Remove(filepath.Join(q.Folder, entry.Name()))
		}
	}
}

// holds reports whether there is still nothing for the session.
func (n *note) holds(now time.Time) bool {
	if n == nil {
		return false
	}
	text, err := os.ReadFile(n.file)
	var k kept
	return err == nil && json.Unmarshal(text, &k) == nil && k.State == n.state && !now.Before(k.Since) &&
		now.Before(k.Until)
}

// keep notes that there is nothing for the session for so long. A note that is torn, or cannot be written, is as good as
// none.
func (n *note) keep(quiet time.Duration) {
	if n == nil || quiet <= 0 {
		return
	}
	now := time.Now()
	text, err := json.Marshal(kept{Since: now, Until: now.Add(quiet), State: n.state})
	if err == nil && os.MkdirAll(filepath.Dir(n.file), 0o700) == nil {
		os.WriteFile(n.file, text, 0o600)
	}
}
