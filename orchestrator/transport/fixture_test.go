package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/transport"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass returns when the clock of the file system differs from the time of the last change of the file. The clock
// moves in steps of some milliseconds.
func pass(t *testing.T, path string) {
	t.Helper()
	before, err := os.Stat(path)
	must(t, err)
	probe := path + ".probe"
	for {
		must(t, os.WriteFile(probe, []byte("x"), 0o600))
		now, err := os.Stat(probe)
		must(t, err)
		if now.ModTime().After(before.ModTime()) {
			must(t, os.Remove(probe))
			return
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(t, err)
	defer file.Close()
	_, err = file.WriteString(text)
	must(t, err)
}

// hold takes the lock on the lock file, as a rotation does.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	side, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	must(t, unix.Flock(int(side.Fd()), unix.LOCK_EX))
	return func() { side.Close() }
}

// arrived reads the lines that a reader would accept: whole lines of JSON.
func arrived(t *testing.T, path string) (list []orchestratortest.Arrival) {
	t.Helper()
	whole, _ := lines(t, path)
	for _, text := range whole {
		var l struct {
			ID      string          `json:"message_id"`
			Payload json.RawMessage `json:"payload"`
		}
		must(t, json.Unmarshal(text, &l))
		list = append(list, orchestratortest.Arrival{ID: l.ID, Payload: l.Payload})
	}
	return list
}

// lines returns the lines of a file that are JSON, and the torn ones.
func lines(t *testing.T, path string) (whole, torn [][]byte) {
	t.Helper()
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	must(t, err)
	defer file.Close()
	for r := bufio.NewReader(file); ; {
		text, err := r.ReadBytes('\n')
		switch text = bytes.TrimSuffix(text, []byte("\n")); {
		case err == nil && json.Valid(text):
			whole = append(whole, text)
		case len(text) > 0:
			torn = append(torn, text)
		}
		if errors.Is(err, io.EOF) {
			return whole, torn
		}
		must(t, err)
	}
}

// notebook stands in for the router's table. It stores the notes of the marks.
type notebook struct {
	mu    sync.Mutex
	notes map[string]string
}

func (l *notebook) attempt(path string, ms ...orchestrator.Message) orchestrator.Attempt {
	return orchestrator.Attempt{
		Recipient: "builder", Address: path, Messages: ms,
		Mark: func(_ context.Context, note string) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.notes == nil {
				l.notes = map[string]string{}
			}
			for i := range ms {
				l.notes[ms[i].ID] = note
			}
			return nil
		},
	}
}

func (l *notebook) deliver(t *testing.T, path string, ms ...orchestrator.Message) {
	t.Helper()
	must(t, errors.Join(transport.JSONL{}.Deliver(t.Context(), l.attempt(path, ms...))...))
}

func (l *notebook) recover(t *testing.T, path string, m orchestrator.Message) (bool, error) {
	t.Helper()
	m.Mark = l.notes[m.ID]
	return transport.JSONL{}.Recover(t.Context(), l.attempt(path, m))
}

func note(id, payload string) orchestrator.Message {
	return orchestrator.Message{
		ID: id, Sender: "architect", Recipient: "builder", Type: "note", Payload: json.RawMessage(payload),
		Status: orchestrator.Pending, CreatedAt: "2025-10-26T10:30:00.000Z",
	}
}
