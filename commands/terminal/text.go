// Package terminal writes for people: in colours and columns where there are any, and so that nothing that somebody else
// wrote can steer the terminal or pass for a line of ours.
package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Text writes for people, on a terminal. What comes from messages can neither drive the terminal nor pass for a line of
// ours: an argument of Printf and a cell of a table stay within their line, and of a text of several lines (Block) each
// is indented.
type Text struct {
	Out   io.Writer
	Color bool
	Width int // columns of the terminal; 0 is unknown
	// the locale has nothing else: signs of ours are written in ASCII, and texts of others as they are
	ASCII bool
	Now   func() time.Time // for When; nil is time.Now
	Zone  *time.Location   // of the reader; nil is this machine's

	at   int    // columns of the line that are taken
	hang string // with what a line goes on that does not fit
	err  error
}

// Err returns the first error of writing.
func (w *Text) Err() error { return w.err }

// Printf writes a text. What its arguments hold stays within the line.
func (w *Text) Printf(format string, args ...any) {
	safe := make([]any, len(args))
	for i, a := range args {
		safe[i] = inlined(a)
	}
	w.raw(fmt.Sprintf(format, safe...))
}

// Block writes a text of one or more lines that somebody else wrote: first stands before the first of them, and rest
// before each other, which must not be empty where lines of ours begin at the margin.
func (w *Text) Block(first, rest Painted, text string) {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	before := first
	for line := range strings.SplitSeq(Visible(text), "\n") {
		w.raw(string(before))
		if w.hang = strings.Repeat(" ", columns(string(rest))); w.hang == "" || len(w.hang) > w.Width/2 {
			w.hang = hangs
		}
		w.fit(line + "\n")
		before = rest
	}
}

// Body writes the text of a message below its heading. Every line begins with the indent.
func (w *Text) Body(indent Painted, text string) { w.Block(indent, indent, text) }

// Whole writes lines that are never broken, since they are a picture or there to be copied.
func (w *Text) Whole(lines Painted) { w.write(string(lines)) }

// File writes the text of a file, which is there to be copied: its lines are never broken.
func (w *Text) File(text string) { w.Whole(Painted(strings.TrimRight(Visible(text), "\n") + "\n")) }

func (w *Text) write(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.Out, s)
	}
}

// Style is a way of standing out.
type Style string

// The styles, as SGR parameters.
const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Paint returns s in a style, or as it is where colours are off. s is made Inline.
func (w *Text) Paint(style Style, s string) Painted {
	s = Inline(s)
	if !w.Color || s == "" {
		return Painted(s)
	}
	return Painted("\x1b[" + string(style) + "m" + s + "\x1b[0m")
}

// Painted is a text that is safe to show already.
type Painted string

// StatusStyle is the style in which a message status or a level is shown.
func StatusStyle(status string) Style {
	switch status {
	case "delivered", "ok", "read", "acknowledged", "OK":
		return Green
	case "failed", "expired", "problem", "attempt_failed", "ERROR":
		return Red
	case "retry", "overdue", "note", "released", "shown":
		return Yellow
	}
	return ""
}

// Status returns a status in its style.
func (w *Text) Status(status string) Painted {
	style := StatusStyle(status)
	if style == "" {
		return Painted(Inline(status))
	}
	return w.Paint(style, status)
}

// Is returns a status in words that follow "is": retry becomes waiting for a retry.
func (w *Text) Is(status string) Painted {
	if status == "retry" {
		return w.Paint(StatusStyle(status), "waiting for a retry")
	}
	return w.Status(status)
}

// Fields writes key and value lines, the values aligned, each of their lines. Pairs whose value is empty are left out.
func (w *Text) Fields(pairs ...[2]string) {
	width := 0
	for _, p := range pairs {
		if p[1] != "" {
			width = max(width, columns(p[0]))
		}
	}
	for _, p := range pairs {
		if p[1] != "" {
			key := w.Paint(Dim, p[0]) + Painted(strings.Repeat(" ", width-columns(p[0])+2))
			w.Block(key, Painted(strings.Repeat(" ", width+2)), p[1])
		}
	}
}
