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

// text reports whether to answer with text for people: as the line or the environment says, otherwise always, except that
// a command whose answer is for programs does so on a terminal alone. The other form is JSON, an object a line.
func (p *Program) text() bool {
	switch p.output {
	case "text":
		return true
	case "json":
		return false
	}
	return p.OutTerminal || !p.document
}

// isDocument reports whether programs read the answer, key for key: where a document has the command, and for lines. A
// word for people, such as read, answers people whatever it stands for.
func (l *line) isDocument() bool {
	return l.definition != nil && l.definition.IsDocument() && !l.byWord || slices.Contains(l.named, "stdin")
}

// people returns a writer of text for people to w, in colours if that is a terminal and nothing speaks against them.
func (p *Program) people(w io.Writer, onTerminal bool) *terminal.Text {
	var zone *time.Location
	if p.there != nil {
		zone = p.there.Location()
	}
	return &terminal.Text{Out: w, Zone: zone, Color: onTerminal && p.Getenv("NO_COLOR") == "" && p.Getenv("TERM") != "dumb",
		Width: p.Width, ASCII: plainLocale(p.Getenv), Now: p.Now}
}

// plainLocale reports whether the environment names the locale C, which has nothing but ASCII; so does one that names
// none.
func plainLocale(getenv func(string) string) bool {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"), "C")
	return locale == "C" || locale == "POSIX"
}

// answer writes the answer of a command that succeeded to out.
func (p *Program) answer(out io.Writer, a commands.Answer) error {
	if !p.text() {
		pieces, err := a.Pieces()
		return writePieces(out, pieces, err)
	}
	var b bytes.Buffer // written at once: whoever reads only the beginning of it is not to be told of a broken pipe
	w := p.people(&b, p.OutTerminal)
	if texter, ok := a.Result.(commands.Texter); ok {
		texter.Text(w)
	} else {
		w.Fields(fieldsOf(a.Result)...)
	}
	_, err := out.Write(b.Bytes())
	return err
}

// failure writes the answer of a command that failed: as JSON to out unless it is for people.
func (p *Program) failure(out io.Writer, err error) {
	if p.text() {
		p.sayFailure(err)
	} else if werr := writeLine(out, commands.Failure{Err: err}); werr != nil {
		fmt.Fprintln(p.Err, "mailroom:", terminal.Inline(err.Error()))
	}
}

// sayFailure says on standard error, for people, why a command failed, and what to do.
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

// writePieces writes a line of JSON, unless making it has failed: what is in one piece at once, since somebody may read
// a line at a time.
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

// fieldsOf returns the fields of a result that has no text of its own: their names in JSON, and their values, those of
// texts without quotes.
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

// isTerminal reports whether f is a terminal, and how wide it is.
func isTerminal(f *os.File) (is bool, width int) {
	if !term.IsTerminal(int(f.Fd())) {
		return false, 0
	}
	width, _, _ = term.GetSize(int(f.Fd()))
	return true, width
}
