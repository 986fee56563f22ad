package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
)

// text reports whether the answer is text for people. The command line or the environment decides. Otherwise it is
// text, except that a command for programs prints text only on a terminal. The alternative is JSON, one object a
// line.
func (p *Program) text() bool {
	switch p.output {
	case "text":
		return true
	case "json":
		return false
	}
	return p.OutTerminal || !p.document
}

// isDocument reports whether the answer is for programs that read its keys: the command is part of a document, or
// reads lines from standard input. A command called by one of its other names, such as read, answers people.
func (l *line) isDocument() bool {
	return l.definition != nil && l.definition.IsDocument() && !l.byWord || slices.Contains(l.named, "stdin")
}

// people returns a writer of text for people to w. It uses colors if w is a terminal and the environment permits
// them.
func (p *Program) people(w io.Writer, onTerminal bool) *terminal.Text {
	var zone *time.Location
	if p.there != nil {
		zone = p.there.Location()
	}
	return &terminal.Text{Out: w, Zone: zone, Color: onTerminal && p.Getenv("NO_COLOR") == "" && p.Getenv("TERM") != "dumb",
		Width: p.Width, ASCII: plainLocale(p.Getenv), Now: p.Now}
}

// plainLocale reports whether the locale of the environment is C or POSIX, which support only ASCII. Without a locale
// variable, the locale is C.
func plainLocale(getenv func(string) string) bool {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"), "C")
	return locale == "C" || locale == "POSIX"
}

// answer writes the answer of a successful command to out.
func (p *Program) answer(out io.Writer, a commands.Answer) error {
	if !p.text() {
		pieces, err := a.Pieces()
		return writePieces(out, pieces, err)
	}
	var b bytes.Buffer // a single write, so that a reader of the first lines only causes no broken pipe
	w := p.people(&b, p.OutTerminal)
	if texter, ok := a.Result.(commands.Texter); ok {
		texter.Text(w)
	} else {
		w.Fields(fieldsOf(a.Result)...)
	}
	_, err := out.Write(b.Bytes())
	return err
}

// failure writes the error of a failed command: as JSON to out, or as text for people to standard error.
func (p *Program) failure(out io.Writer, err error) {
	if p.text() {
		p.sayFailure(err)
	} else if werr := writeLine(out, commands.Failure{Err: err}); werr != nil {
		fmt.Fprintln(p.Err, "mailroom:", terminal.Inline(err.Error()))
	}
}

// sayFailure prints to standard error, for people, why a command failed and what to do.
func (p *Program) sayFailure(err error) {
	w := p.people(p.Err, p.ErrTerminal)
	var e *orchestrator.Error
	if !errors.As(err, &e) {
		w.Block(w.Paint(terminal.Red, "mailroom:")+" ", "  ", err.Error())
		return
	}
	w.Block(w.Paint(terminal.Red, "mailroom:")+" ", "  ", e.WithoutHint())
	if e.Hint != "" {
		w.Block("", "  ", e.Hint)
	}
}

// writeLine writes a value as one line of JSON.
func writeLine(out io.Writer, v any) error {
	b, err := orchestrator.JSON(v)
	return writePieces(out, [][]byte{b}, err)
}

// writePieces writes the pieces of a line of JSON, or returns err if it is set. It writes each piece together with
// the line ending in one write where possible, since the reader may read line by line.
func writePieces(out io.Writer, pieces [][]byte, err error) error {
	for i, piece := range pieces {
		if err != nil {
			return err
		}
		if i == len(pieces)-1 {
			piece = append(piece, '\n')
		}
		_, err = out.Write(piece)
	}
	return err
}

// fieldsOf returns the fields of a result that has no text of its own: their names in JSON, and their values, strings
// without quotes.
func fieldsOf(result any) (fields [][2]string) {
	v := reflect.ValueOf(result)
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" || options == "omitempty" && v.Field(i).IsZero() {
			continue
		}
		value, _ := orchestrator.JSON(v.Field(i).Interface())
		text := string(value)
		json.Unmarshal(value, &text)
		fields = append(fields, [2]string{strings.ReplaceAll(name, "_", " "), text})
	}
	return fields
}

// isTerminal reports whether f is a terminal, and its width in characters.
func isTerminal(f *os.File) (is bool, width int) {
	if !term.IsTerminal(int(f.Fd())) {
		return false, 0
	}
	width, _, _ = term.GetSize(int(f.Fd()))
	return true, width
}
