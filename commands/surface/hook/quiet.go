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

// Quiet keeps notes, in files, of sessions that had nothing to show after a tool call. As long as nobody commits and
// nothing is due, the hooks after the next tool calls need not open the database, which is the main cost of a hook. A
// nil Quiet keeps no notes.
type Quiet struct {
	Folder   string // of the note files
	Database string
	As       string // name of the caller, as given

	// State returns a text that changes with every commit, see sqlite.State.
	State func(database string) (state string, known bool)
}

// leftOver is the age after which a note is removed. Its session has ended; no note is valid for more than a minute.
const leftOver = time.Hour

// note is the note of one session. A nil note is never valid and is not written.
type note struct {
	file  string
	state string // of the database at the time of the event
}

// kept is the content of a note's file.
type kept struct {
	Since, Until time.Time // by this machine's clock
	State        string
}

// of returns the note of the session of an event that follows a tool call. For any other event, it removes the note
// and returns nil; the start of a session also removes old notes. The key contains the host's process and the agent,
// since a session ID may be used again.
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

// sweep removes old notes.
func (q *Quiet) sweep() {
	list, _ := os.ReadDir(q.Folder)
	for _, entry := range list {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > leftOver {
			os.Remove(filepath.Join(q.Folder, entry.Name()))
		}
	}
}

// holds reports whether there is still nothing to show in the session.
func (n *note) holds(now time.Time) bool {
	if n == nil {
		return false
	}
	text, err := os.ReadFile(n.file)
	var k kept
	return err == nil && json.Unmarshal(text, &k) == nil && k.State == n.state && !now.Before(k.Since) &&
		now.Before(k.Until)
}

// keep records that there is nothing to show in the session for the duration quiet. An incomplete or missing file has
// the same effect as no note.
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
