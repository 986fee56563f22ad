// Package terminal writes text for people, with colors and columns if the terminal has them. Text that others wrote
// can neither control the terminal nor look like a line of Mailroom's own.
package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Text writes text for people, on a terminal. Text from messages can neither control the terminal nor look like a
// line of Mailroom's own: an argument of Printf and a cell of a table stay within their line, and every line of a
// text of several lines (Block) is indented.
type Text struct {
	Out   io.Writer
	Color bool
	Width int // columns of the terminal; 0 for unknown
	// ASCII reports whether the locale supports only ASCII. Mailroom's own signs are then written in ASCII, and other
	// texts unchanged.
	ASCII bool
	Now   func() time.Time // for When; nil for time.Now
	Zone  *time.Location   // of the reader; nil for this machine's

	at   int    // columns of the current line that are used
	hang string // start of each line that continues a broken line
	err  error
}

// Err returns the first write error.
func (w *Text) Err() error { return w.err }

// Printf writes a formatted text. The text of each argument stays within its line.
func (w *Text) Printf(format string, args ...any) {
	safe := make([]any, len(args))
	for i, a := range args {
		safe[i] = inlined(a)
	}
	w.raw(fmt.Sprintf(format, safe...))
}

// Block writes a text of one or more lines that somebody else wrote. It puts first before the first line and rest
// before each further line. rest must not be empty where Mailroom's own lines begin at the margin.
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

// Whole writes lines that are never broken, because they are a picture or are meant to be copied.
func (w *Text) Whole(lines Painted) { w.write(string(lines)) }

// File writes the text of a file that is meant to be copied. Its lines are never broken.
func (w *Text) File(text string) { w.Whole(Painted(strings.TrimRight(Visible(text), "\n") + "\n")) }

func (w *Text) write(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.Out, s)
	}
}

// Style is a color or a weight of text.
type Style string

// Styles, as SGR parameters.
const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Paint returns s in a style, or without a style if colors are off. It applies Inline to s.
func (w *Text) Paint(style Style, s string) Painted {
	s = Inline(s)
	if !w.Color || s == "" {
		return Painted(s)
	}
	return Painted("\x1b[" + string(style) + "m" + s + "\x1b[0m")
}

// Painted is a text that is already safe to write.
type Painted string

// StatusStyle returns the style of a message status or a level.
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

// Fields writes a line for each key and its value, with the values aligned, including their further lines. It leaves
// out pairs with an empty value.
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
