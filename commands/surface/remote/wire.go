package remote

import (
	"encoding/json"
	"io"
	"sync"
)

// version of the protocol. Sides of different versions refuse each other.
const version = 1

// runPath is where a command line is run: a POST whose body and answer are lines of JSON, a told and a wanted each, that
// go both ways at the same time.
const runPath = "/v1/run"

// maxChunk bounds the bytes of one piece of a stream.
const maxChunk = 64 << 10

// Request is a command line, and what counts of where it was typed.
type Request struct {
	Args     []string          `json:"args"` // without the program's name, --db and --jq
	Database string            `json:"database,omitempty"`
	Env      map[string]string `json:"env,omitempty"`   // of Variables
	Width    int               `json:"width,omitempty"` // of the terminal; 0 is not known

	InTerminal  bool `json:"in_terminal,omitempty"`
	OutTerminal bool `json:"out_terminal,omitempty"`
	ErrTerminal bool `json:"err_terminal,omitempty"`

	Zone   string `json:"zone,omitempty"`   // of time, by its name in the IANA database
	Offset int    `json:"offset,omitempty"` // seconds east of UTC now, for a zone that is not known there
}

// Variables are those of the environment that count for a command line wherever it is run.
var Variables = []string{"MAILROOM_AGENT", "MAILROOM_OUTPUT", "MAILROOM_MESSAGE_IDS", "TRACEPARENT", "LC_ALL", "LC_CTYPE", "LANG",
	"NO_COLOR", "TERM"}

// told is what this side says: first the request, then what the other side wants, and that a signal has come.
type told struct {
	Request *Request `json:"request,omitempty"`
	In      *piece   `json:"in,omitempty"`     // of standard input
	Answer  *piece   `json:"answer,omitempty"` // a part of a file, that it is there, or the answer to a question
	Written bool     `json:"written,omitempty"`
	Signal  int      `json:"signal,omitempty"`
}

// piece is a part of what is read.
type piece struct {
	Bytes []byte `json:"bytes,omitempty"`
	End   bool   `json:"end,omitempty"` // nothing follows
	Err   string `json:"err,omitempty"`
}

// wanted is what the side says on which the line runs: what it prints, what it wants, and how the line has ended.
type wanted struct {
	Out    []byte `json:"out,omitempty"`
	Err    []byte `json:"err,omitempty"`
	In     int    `json:"in,omitempty"`     // at most so many bytes of standard input
	File   string `json:"file,omitempty"`   // which the line names
	Stat   bool   `json:"stat,omitempty"`   // only whether that is there
	Fresh  bool   `json:"fresh,omitempty"`  // what was typed so far is not to be read
	Ask    string `json:"ask,omitempty"`    // a question that this side may have an answer to
	Write  bool   `json:"write,omitempty"`  // to be told when all that was printed is written
	Status *int   `json:"status,omitempty"` // exit status; the last one has it
}

// lines writes values as lines of JSON, from any goroutine.
type lines struct {
	mu    sync.Mutex
	out   io.Writer
	flush func() error
}

func (l *lines) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err = l.out.Write(append(b, '\n')); err == nil && l.flush != nil {
		err = l.flush()
	}
	return err
}
