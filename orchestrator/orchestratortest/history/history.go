// Package history compares a database, and the files written from it, with the answers that processes got.
//
// A driver writes a history (Log): the requests, the answers, and the kills of processes. Triggers in the database
// (Witness) record every change independently of the engine's own trace. When the run has come to rest, Check
// compares the history, the record, the trace, the tables and the files with each other.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Kind is the kind of an event in a history.
type Kind string

// The kinds of events.
const (
	Started      Kind = "started"      // a process began
	Killed       Kind = "killed"       // SIGKILL was sent to a process
	Paused       Kind = "paused"       // SIGSTOP was sent to a process, which continued later
	Ended        Kind = "ended"        // a process ended
	Asked        Kind = "asked"        // a send is about to be made
	Acknowledged Kind = "acknowledged" // a send was answered as stored on disk
	Unsure       Kind = "unsure"       // the database was unavailable to a send, which may have been stored or not
	Handed       Kind = "handed"       // a reader got messages
	Failing      Kind = "failing"      // the database's server is about to fail, which may undo unsynced commits
	Repaired     Kind = "repaired"     // the server works again; comes after each Failing
	Fault        Kind = "fault"        // an answer or an exit that is never allowed
)

// Event is an event as the driver observed it.
type Event struct {
	At        int64    `json:"at"` // ns since 1970; before the send for Asked, after the answer for Acknowledged
	Kind      Kind     `json:"kind"`
	Process   string   `json:"process"`              // its ORCHESTRATOR_INSTANCE_ID, never used twice
	Lane      string   `json:"lane,omitempty"`       // the sends of one lane are sequential
	Number    int      `json:"number,omitempty"`     // the position of the send in its lane
	Token     string   `json:"token,omitempty"`      // in the payload of the send
	MessageID string   `json:"message_id,omitempty"` // in the answer to the send
	Sender    string   `json:"sender,omitempty"`
	Recipient string   `json:"recipient,omitempty"`
	Priority  int      `json:"priority,omitempty"`
	IDs       []string `json:"ids,omitempty"`  // messages that the reader got
	PID       int      `json:"pid,omitempty"`  // of a process that ended
	Text      string   `json:"text,omitempty"` // for Ended, the exit status and the standard error
}

// Log writes a history to a file with one event per line. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	file   *os.File
	out    *bufio.Writer
	counts map[Kind]int
	err    error
}

// Create creates a history in a new file.
func Create(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{file: file, out: bufio.NewWriterSize(file, 1<<20), counts: map[Kind]int{}}, nil
}

// Add appends an event. If the event has no time, Add uses the current time. Close returns an error of Add.
func (l *Log) Add(e Event) {
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if l.err == nil {
		l.err = err
	}
	l.counts[e.Kind]++
}

// Count returns the number of events of a kind.
func (l *Log) Count(kind Kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[kind]
}

// Close writes buffered events and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.out.Flush(); l.err == nil {
		l.err = err
	}
	if err := l.file.Close(); l.err == nil {
		l.err = err
	}
	return l.err
}

// Read reads a history that was closed.
func Read(path string) (events []Event, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
