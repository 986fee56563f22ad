package orchestrator_test

import (
	"os"
	"path/filepath"
	"testing"

	"mailroom/orchestrator"
)

// TestReplacedDatabase: a database that is removed, or has another put in its place, while a process has it open takes no
// message with it: the send that came too late is refused, the next goes to the file that is there now, and so do readers
// and waiters.
func TestReplacedDatabase(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, path, other string){
		"removed": func(t *testing.T, path, _ string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
		},
		"replaced": func(t *testing.T, path, other string) {
			for _, suffix := range []string{"-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, other := filepath.Join(t.TempDir(), "a.db"), filepath.Join(t.TempDir(), "other.db")
			made := openAt(t, other)
			addAB(t, made)
			if err := made.Close(); err != nil {
				t.Fatal(err)
			}
			r := openAt(t, path)
			addAB(t, r)
			draft := orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte(`"kept"`)}
			if _, err := r.Send(t.Context(), draft); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Poll(t.Context(), "b", 1); err != nil { // a reader has the file open, too
				t.Fatal(err)
			}
			replace(t, path, other)
			_, err := r.Send(t.Context(), draft)
			wantCode(t, err, orchestrator.Unavailable)
			if name == "removed" {
				addAB(t, r) // into a new file
			}
			if _, err := r.Send(t.Context(), draft); err != nil {
				t.Fatal(err)
			}
			if backlog, err := r.Poll(t.Context(), "b", 10); err != nil || backlog.Pending != 1 {
				t.Errorf("a reader of the same process sees %d messages, %v; want the one", backlog.Pending, err)
			}
			ms, err := openAt(t, path).Wait(t.Context(), orchestrator.WaitOptions{Recipient: "b", Limit: 10})
			if err != nil || len(ms) != 1 {
				t.Errorf("another process reads %d messages, %v; want the one", len(ms), err)
			}
		})
	}
}

func addAB(t *testing.T, r *orchestrator.Router) {
	t.Helper()
	for _, name := range []string{"a", "b"} {
		if _, _, err := r.AddAgent(t.Context(), orchestrator.AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
}
