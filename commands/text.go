package commands

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/overview"
)

// Text writes for people, on a terminal. What comes from messages can neither drive the terminal nor pass for a line of ours:
// an argument of Printf and a cell of a table stay within their line, and of a text of several lines (Block) each is indented.
type Text struct {
	Out   io.Writer
	Color bool
	Width int              // columns of the terminal; 0 is unknown
	Now   func() time.Time // for When; nil is time.Now

	err error
}

// Texter is a result that has a form for people of its own.
type Texter interface{ Text(w *Text) }

// ToolTexter is a result with a text for the clients of MCP, which show a model that text; programs read the structured
// result beside it. It is not made harmless for a terminal.
type ToolTexter interface{ ToolText() string }

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

// Block writes a text of one or more lines that somebody else wrote: first stands before the first of them, and rest before each
// other, which must not be empty where lines of ours begin at the margin.
func (w *Text) Block(first, rest Painted, text string) {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	w.raw(string(first) + strings.ReplaceAll(Visible(text), "\n", "\n"+string(rest)) + "\n")
}

// Body writes the text of a message below its heading. Every line begins with the indent.
func (w *Text) Body(indent Painted, text string) { w.Block(indent, indent, text) }

func (w *Text) raw(s string) {
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

// Finding writes what a doctor has found, and below it what to do.
func (w *Text) Finding(f overview.Finding) {
	w.Block(w.Status(f.Level)+Painted("  "+Inline(f.Check)+": "), "    ", f.Says)
	if f.Do != "" {
		w.Body("    ", f.Do)
	}
}

// NotTrusted writes why a database does nothing outside of itself, and what to do about it; nothing where it does.
func NotTrusted(w *Text, why string) {
	if why != "" {
		w.Printf("%s\n", w.Paint(Red, "Attention: "+ledger.NotTrusted+": "+why+". "+ledger.NotTrustedHint+"."))
	}
}

// Table writes rows in columns under a header. Cells stay within their line, and long ones are cut. Where the terminal is too
// narrow for the columns, each row is a block of lines instead, and nothing is cut.
func (w *Text) Table(header []string, rows [][]string) {
	titles, cells := make([]string, len(header)), make([][]string, len(rows))
	for i, title := range header {
		titles[i] = Inline(title)
	}
	for i, row := range rows {
		cells[i] = make([]string, max(len(row), len(header))) // tabwriter aligns only rows that have all cells
		for j, cell := range row {
			cells[i][j] = Inline(strings.ReplaceAll(cell, "\n", " "))
		}
	}
	limit := w.cellLimit(len(header))
	if w.Width > 0 && tableWidth(titles, cells, limit) > w.Width {
		w.blocks(titles, cells)
		return
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(titles, "\t"))
	for _, row := range cells {
		for j, cell := range row {
			row[j] = Cut(cell, limit)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
	head, body, _ := strings.Cut(b.String(), "\n")
	w.raw(string(w.Paint(Bold, strings.TrimRight(head, " "))) + "\n" + trimLines(body))
}

// TableOf writes a table that has a row for each element of a list.
func TableOf[T any](w *Text, header []string, list []T, row func(*T) []string) {
	rows := make([][]string, len(list))
	for i := range list {
		rows[i] = row(&list[i])
	}
	w.Table(header, rows)
}

// tableWidth is how many columns a table needs whose cells are cut at limit.
func tableWidth(header []string, rows [][]string, limit int) int {
	total := 2 * (len(header) - 1)
	for i, title := range header {
		width := utf8.RuneCountInString(title)
		for _, row := range rows {
			if i < len(row) {
				width = max(width, min(limit, utf8.RuneCountInString(row[i])))
			}
		}
		total += width
	}
	return total
}

// blocks writes each row as lines of title and cell.
func (w *Text) blocks(header []string, rows [][]string) {
	for i, row := range rows {
		if i > 0 {
			w.raw("\n")
		}
		pairs := make([][2]string, 0, len(header))
		for j, cell := range row[:min(len(row), len(header))] {
			pairs = append(pairs, [2]string{strings.ToLower(header[j]), cell})
		}
		w.Fields(pairs...)
	}
}

func trimLines(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// cellLimit is how wide a cell may be so that one long cell does not push the others off the terminal.
func (w *Text) cellLimit(columns int) int {
	if w.Width == 0 || columns == 0 {
		return 0
	}
	return max(20, w.Width/2)
}

// Cut returns a text of at most limit characters, the last an ellipsis if something is missing; 0 is no limit.
func Cut(s string, limit int) string {
	runes := []rune(s)
	if limit == 0 || len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}

// Fields writes key and value lines, the values aligned, each of their lines. Pairs whose value is empty are left out.
func (w *Text) Fields(pairs ...[2]string) {
	width := 0
	for _, p := range pairs {
		if p[1] != "" {
			width = max(width, len(p[0]))
		}
	}
	for _, p := range pairs {
		if p[1] != "" {
			key := w.Paint(Dim, p[0]) + Painted(strings.Repeat(" ", width-len(p[0])+2))
			w.Block(key, Painted(strings.Repeat(" ", width+2)), p[1])
		}
	}
}
