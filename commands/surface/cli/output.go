package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// printer writes the answers of one run: JSON, one object a line, or text for people.
type printer struct {
	p    *Program
	text bool
	held *bytes.Buffer // not nil: lines gather here until flush
}

// hold makes lines of JSON gather until flush.
func (o *printer) hold() { o.held = &bytes.Buffer{} }

// flush writes what gathered.
func (o *printer) flush() error {
	if o.held == nil {
		return nil
	}
	_, err := o.held.WriteTo(o.p.Out)
	o.held = nil
	return err
}

// printer decides how to answer: as --output says, otherwise text on a terminal and JSON elsewhere.
func (p *Program) printer() *printer {
	return &printer{p: p, text: p.output == "text" || (p.output != "json" && p.OutTerminal)}
}

// people returns a writer of text for people on w.
func (p *Program) people(w io.Writer, terminal bool) *commands.Text {
	return &commands.Text{Out: w, Color: terminal && p.Getenv("NO_COLOR") == "" && p.Getenv("TERM") != "dumb", Width: p.Width}
}

func (o *printer) answer(a commands.Answer) error {
	if !o.text {
		return o.line(a)
	}
	w := o.p.people(o.p.Out, o.p.OutTerminal)
	if texter, ok := a.Result.(commands.Texter); ok {
		texter.Text(w)
		return w.Err()
	}
	body, err := orchestrator.JSON(a.Result)
	if err != nil {
		return err
	}
	generic(w, body)
	return w.Err()
}

// failure writes the answer of a command that failed: JSON to standard output, or a sentence to standard error.
func (o *printer) failure(err error) {
	if !o.text {
		if werr := o.line(commands.Failure{Err: err}); werr != nil {
			fmt.Fprintln(o.p.Err, "mailroom:", commands.Inline(err.Error()))
		}
		return
	}
	w := o.p.people(o.p.Err, o.p.ErrTerminal)
	var e *orchestrator.Error
	if !errors.As(err, &e) {
		w.Block(w.Paint(commands.Red, "mailroom:")+" ", "  ", err.Error())
		return
	}
	bare := *e
	bare.Hint = ""
	w.Block(w.Paint(commands.Red, "mailroom:")+" ", "  ", bare.Error())
	if e.Hint != "" {
		w.Block("", "  ", e.Hint)
	}
}

func (o *printer) line(v any) error {
	b, err := orchestrator.JSON(v)
	if err != nil {
		return err
	}
	if b = append(b, '\n'); o.held != nil {
		o.held.Write(b)
		return nil
	}
	_, err = o.p.Out.Write(b)
	return err
}

// generic writes any JSON object for people: scalars as aligned lines, lists of objects as tables.
func generic(w *commands.Text, body []byte) {
	fields := orderedFields(body)
	var pairs [][2]string
	for _, f := range fields {
		if !isTable(f.value) {
			pairs = append(pairs, [2]string{strings.ReplaceAll(f.key, "_", " "), plainValue(f.value)})
		}
	}
	w.Fields(pairs...)
	for _, f := range fields {
		if isTable(f.value) {
			genericTable(w, f)
		}
	}
}

type field struct {
	key   string
	value json.RawMessage
}

// orderedFields splits a JSON object, keeping the order of its keys.
func orderedFields(body []byte) (fields []field) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return fields
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return fields
		}
		fields = append(fields, field{key.(string), value})
	}
	return fields
}

func isTable(value json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(value, &list) == nil && len(list) > 0 && len(list[0]) > 0 && list[0][0] == '{'
}

func genericTable(w *commands.Text, f field) {
	var list []json.RawMessage
	_ = json.Unmarshal(f.value, &list) // isTable has seen it
	var header []string
	known := map[string]int{}
	rows := make([][]string, len(list))
	for i, item := range list {
		for _, cell := range orderedFields(item) {
			at, ok := known[cell.key]
			if !ok {
				at = len(header)
				known[cell.key], header = at, append(header, cell.key)
			}
			for len(rows[i]) <= at {
				rows[i] = append(rows[i], "")
			}
			rows[i][at] = plainValue(cell.value)
		}
	}
	w.Printf("\n%s\n", w.Paint(commands.Bold, strings.ReplaceAll(f.key, "_", " ")))
	w.Table(header, rows)
}

// plainValue shows a JSON value without quotes where that is clear.
func plainValue(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	var list []string
	if json.Unmarshal(value, &list) == nil {
		return strings.Join(list, ", ")
	}
	if string(value) == "null" {
		return ""
	}
	return string(value)
}

// terminal reports whether f is a terminal, and how wide it is.
func terminal(f *os.File) (is bool, width int) {
	if !term.IsTerminal(int(f.Fd())) {
		return false, 0
	}
	width, _, _ = term.GetSize(int(f.Fd()))
	return true, width
}
