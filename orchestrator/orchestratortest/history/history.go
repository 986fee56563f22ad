// Package history holds a database, and the files that were written from it, to what the processes around it were told.
//
// A driver writes down a history (Log): who asked for what, what was answered, who was killed. Triggers in the database
// (Witness) keep a record of every change that does not depend on the engine's own trace. When everything has come to
// rest, Check compares the history, the record, the trace, the tables and the files with each other.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Kind is what an event of a history says.
type Kind string

// The events of a history.
const (
	Started      Kind = "started"      // a process began
	Killed       Kind = "killed"       // SIGKILL was sent to it
	Paused       Kind = "paused"       // SIGSTOP was sent to it; it went on later
	Ended        Kind = "ended"        // it is gone
	Asked        Kind = "asked"        // a send is about to be handed over
	Acknowledged Kind = "acknowledged" // that send answered that it is on disk
	Unsure       Kind = "unsure"       // that send was answered that the database could not be had: it may be there or not
	Handed       Kind = "handed"       // a reader was given messages
	Fault        Kind = "fault"        // an answer or an exit that no process may give
)

// Event is one thing that happened, as the driver saw it.
type Event struct {
	At        int64    `json:"at"` // ns since 1970; of Asked before, of Acknowledged after the fact
	Kind      Kind     `json:"kind"`
	Process   string   `json:"process"`              // its ORCHESTRATOR_INSTANCE_ID, never used twice
	Lane      string   `json:"lane,omitempty"`       // the sends of one lane follow one another
	Number    int      `json:"number,omitempty"`     // the send's place in its lane
	Token     string   `json:"token,omitempty"`      // stands in the payload of the send
	MessageID string   `json:"message_id,omitempty"` // what the send was told
	Sender    string   `json:"sender,omitempty"`
	Recipient string   `json:"recipient,omitempty"`
	Priority  int      `json:"priority,omitempty"`
	IDs       []string `json:"ids,omitempty"` // messages that were handed out
	Text      string   `json:"text,omitempty"`
}

// Log is a history under way: a file with one event per line. Safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	file   *os.File
	out    *bufio.Writer
	counts map[Kind]int
	err    error
}

// Create begins a history in a new file.
func Create(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{file: file, out: bufio.NewWriterSize(file, 1<<20), counts: map[Kind]int{}}, nil
}

// Add appends an event. One without a time happened now. An error is kept for Close.
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

// Count returns how many events of a kind there are.
func (l *Log) Count(kind Kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[kind]
}

// Close writes out what is there and closes the file.
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
