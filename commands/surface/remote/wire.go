package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// version of the protocol. Sides of different versions refuse each other.
const version = 1

// The paths of the protocol. Both are asked with POST.
const (
	// RunPath is where a command line runs. The body and the answer are lines of JSON, a told and a wanted each, that go both
	// ways at the same time.
	RunPath = "/v1/run"
	// WrittenPath, with an id behind it, is where this side confirms after a cut what it has written: see Session.Deliver.
	WrittenPath = "/v1/written/"
)

// Bounds, in bytes: each side may lie.
const (
	maxChunk  = 64 << 10 // of one piece of a stream
	maxLine   = 4 << 20  // of one line: a request has the words of the command line
	maxAnswer = 16 << 20 // of a file, or of the answer to a question
	maxHeld   = 64 << 20 // of what is printed at once
)

// Request is a command line, and what counts of where it was typed.
type Request struct {
	Args     []string          `json:"args"` // without the program's name; --db and --jq in it mean nothing there
	Database string            `json:"database,omitempty"`
	Env      map[string]string `json:"env,omitempty"`   // of Variables
	Width    int               `json:"width,omitempty"` // of the terminal; 0 is not known

	InTerminal  bool `json:"in_terminal,omitempty"`
	OutTerminal bool `json:"out_terminal,omitempty"`
	ErrTerminal bool `json:"err_terminal,omitempty"`

	Zone   string `json:"zone,omitempty"`   // of time, by its name in the IANA database
	Offset int    `json:"offset,omitempty"` // seconds east of UTC now, for a zone that is not known there
}

// Location is the time zone of where it was typed.
func (r *Request) Location() *time.Location {
	zone, err := time.LoadLocation(r.Zone)
	if err != nil || r.Zone == "" {
		return time.FixedZone("", r.Offset)
	}
	return zone
}

// Variables are those of the environment that count for a command line wherever it is run.
var Variables = []string{"MAILROOM_AGENT", "MAILROOM_OUTPUT", "MAILROOM_MESSAGE_IDS", "TRACEPARENT", "LC_ALL", "LC_CTYPE", "LANG",
	"NO_COLOR", "TERM"}

// told is what this side sends: first the request, then what the other side wants, and that a signal has come.
type told struct {
	Request *Request `json:"request,omitempty"`
	In      *piece   `json:"in,omitempty"`     // of standard input
	Answer  *piece   `json:"answer,omitempty"` // a part of a file, that it is there, or the answer to a question
	Signal  int      `json:"signal,omitempty"`
	// Id of what was handed out, and this side has written, or could not write.
	Written   string `json:"written,omitempty"`
	Unwritten string `json:"unwritten,omitempty"`
}

// piece is a part of what is read.
type piece struct {
	Bytes []byte `json:"bytes,omitempty"`
	End   bool   `json:"end,omitempty"` // nothing follows
	Err   string `json:"err,omitempty"`
}

// wanted is what the side sends on which the line runs: what it prints, what it wants, and how the line has ended.
type wanted struct {
	Out    []byte `json:"out,omitempty"`
	Err    []byte `json:"err,omitempty"`
	Hold   []byte `json:"hold,omitempty"`   // to be printed when Write names it, and not before
	Write  string `json:"write,omitempty"`  // id of what is held: print it, and report that
	In     int    `json:"in,omitempty"`     // at most so many bytes of standard input
	File   string `json:"file,omitempty"`   // which the line names
	Stat   bool   `json:"stat,omitempty"`   // only whether that is there
	Fresh  bool   `json:"fresh,omitempty"`  // what was typed so far is not to be read
	Ask    string `json:"ask,omitempty"`    // a question that this side may have an answer to
	Status *int   `json:"status,omitempty"` // exit status; the last one has it
}

// lines writes values as lines of JSON, from any goroutine.
type lines struct {
	mu    sync.Mutex
	out   io.Writer
	flush func() error
	over  bool
}

func (l *lines) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return errGone
	}
	if _, err = l.out.Write(append(b, '\n')); err == nil && l.flush != nil {
		err = l.flush()
	}
	return err
}

// end has nothing more written: who writes later, such as a goroutine that a line has left behind, gets an error.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// reader reads lines of JSON.
type reader struct{ in *bufio.Reader }

// newReader reads with a small buffer: each line that waits holds one.
func newReader(in io.Reader) reader { return reader{bufio.NewReaderSize(in, 1<<10)} }

// next reads one line. Error: that of the reader; a line that is too long, or no JSON of this form.
func (r reader) next(v any) error {
	var line []byte
	for {
		piece, err := r.in.ReadSlice('\n')
		if line = append(line, piece...); len(line) > maxLine {
			return errors.New("a line is too long")
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(line, v)
	}
}
