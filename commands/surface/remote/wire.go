package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// version is the version of the protocol. Sides with different versions refuse each other.
const version = 1

// The paths of the protocol. Requests use the method POST.
const (
	// RunPath runs a command line. The request body consists of lines of JSON with a told each, and the answer of
	// lines with a wanted each. Both are sent at the same time.
	RunPath = "/v1/run"
	// WrittenPath, followed by an ID, confirms after a lost connection that this side has printed a delivery: see
	// Session.Deliver.
	WrittenPath = "/v1/written/"
)

// Limits in bytes, since each side may be malicious.
const (
	maxChunk  = 64 << 10 // one piece of a stream
	maxLine   = 4 << 20  // one line; a request contains the words of the command line
	maxAnswer = 16 << 20 // a file, or the answer to a question
	maxHeld   = 64 << 20 // output printed at once
)

// Request is a command line, with the relevant properties of the place where it was typed.
type Request struct {
	Args     []string          `json:"args"` // without the program's name; --db and --jq have no effect
	Database string            `json:"database,omitempty"`
	Env      map[string]string `json:"env,omitempty"`   // see Variables
	Width    int               `json:"width,omitempty"` // width of the terminal; 0 if not known

	InTerminal  bool `json:"in_terminal,omitempty"`
	OutTerminal bool `json:"out_terminal,omitempty"`
	ErrTerminal bool `json:"err_terminal,omitempty"`

	Zone   string `json:"zone,omitempty"`   // name of the time zone in the IANA database
	Offset int    `json:"offset,omitempty"` // seconds east of UTC now, if the zone is unknown there
}

// Location returns the time zone of the machine where the line was typed.
func (r *Request) Location() *time.Location {
	zone, err := time.LoadLocation(r.Zone)
	if err != nil || r.Zone == "" {
		return time.FixedZone("", r.Offset)
	}
	return zone
}

// Variables lists the environment variables that affect a command line wherever it runs.
var Variables = []string{"MAILROOM_AGENT", "MAILROOM_OUTPUT", "MAILROOM_MESSAGE_IDS", "TRACEPARENT", "LC_ALL", "LC_CTYPE", "LANG",
	"NO_COLOR", "TERM"}

// told is a message of the side where the line was typed: first the request, then answers, confirmations and signals.
type told struct {
	Request *Request `json:"request,omitempty"`
	In      *piece   `json:"in,omitempty"`     // part of standard input
	Answer  *piece   `json:"answer,omitempty"` // part of a file, its existence, or the answer to a question
	Signal  int      `json:"signal,omitempty"`
	// Written is the ID of a delivery that was printed, and Unwritten the ID of one that could not be printed.
	Written   string `json:"written,omitempty"`
	Unwritten string `json:"unwritten,omitempty"`
}

// piece is a part of an input.
type piece struct {
	Bytes []byte `json:"bytes,omitempty"`
	End   bool   `json:"end,omitempty"` // the last piece
	Err   string `json:"err,omitempty"`
}

// wanted is a message of the side that runs the line: output, requests, and the exit status.
type wanted struct {
	Out    []byte `json:"out,omitempty"`
	Err    []byte `json:"err,omitempty"`
	Hold   []byte `json:"hold,omitempty"`   // output to print only when Write names it
	Write  string `json:"write,omitempty"`  // ID of the held output: print it and confirm that
	In     int    `json:"in,omitempty"`     // maximum number of bytes of standard input to send
	File   string `json:"file,omitempty"`   // file to send, which the line names
	Stat   bool   `json:"stat,omitempty"`   // only check whether File exists
	Fresh  bool   `json:"fresh,omitempty"`  // discard what was typed so far
	Ask    string `json:"ask,omitempty"`    // question to answer
	Status *int   `json:"status,omitempty"` // exit status, in the last message
}

// lines writes values as lines of JSON. It is safe for concurrent use.
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

// end makes later writes, for example by a goroutine that a line left behind, return an error.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// reader reads lines of JSON.
type reader struct{ in *bufio.Reader }

// newReader returns a reader with a small buffer, since each waiting line has one.
func newReader(in io.Reader) reader { return reader{bufio.NewReaderSize(in, 1<<10)} }

// next reads one line into v. It returns a read error, or an error for a line that is too long or is not valid JSON.
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
