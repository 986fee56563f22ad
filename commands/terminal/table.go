package terminal

import (
	"slices"
	"strings"
)

const (
	gap       = 2  // columns between two columns of a table
	short     = 20 // a cell of at most this width is never broken or cut
	narrow    = 12 // the same in a table that SideBySide shortens
	mostLines = 4  // lines of a cell; with more, each row is written as a record
)

// freeText ends the title of a column of free text, such as that of messages. The suffix is not shown.
const freeText = "…"

// Table writes rows in columns under a header. If the terminal is too narrow, Table cuts columns of free text, whose
// titles end with "…", and breaks other columns between words. If that is not enough, it writes each row as a record
// with a line for each cell, and cuts nothing.
func (w *Text) Table(header []string, rows [][]string) {
	if t := newTable(header, rows); !t.write(w) {
		t.records(w)
	}
}

// SideBySide writes a table as Table does if its columns fit, and otherwise writes nothing. It reports whether it
// wrote the table. If space is short, it drops the columns with the titles in less, one after the other, and then
// cuts all columns but the first as free text.
func (w *Text) SideBySide(header []string, rows [][]string, less ...string) bool {
	t := newTable(header, rows)
	if t.write(w) {
		return true
	}
	t.least = narrow
	for _, title := range less {
		if t.leaveOut(slices.Index(t.titles, title)); t.write(w) {
			return true
		}
	}
	if len(less) > 0 {
		for i := range t.free[1:] {
			t.free[1+i] = true
		}
	}
	return t.write(w)
}

// leaveOut removes a column.
func (t *table) leaveOut(i int) {
	t.titles, t.free = slices.Delete(t.titles, i, i+1), slices.Delete(t.free, i, i+1)
	for row := range t.cells {
		t.cells[row] = slices.Delete(t.cells[row], i, i+1)
	}
}

func newTable(header []string, rows [][]string) *table {
	t := &table{least: short, titles: make([]string, len(header)), free: make([]bool, len(header)),
		cells: make([][]string, len(rows))}
	for i, title := range header {
		title, t.free[i] = strings.CutSuffix(title, freeText)
		t.titles[i] = Inline(title)
	}
	for i, row := range rows {
		t.cells[i] = make([]string, len(header))
		for j, cell := range row[:min(len(row), len(header))] {
			t.cells[i][j] = Inline(strings.ReplaceAll(cell, "\n", " "))
		}
	}
	return t
}

// write writes the table if it fits, and reports whether it did.
func (t *table) write(w *Text) bool {
	if !t.lay(w.Width) {
		return false
	}
	lines := t.lines(w, t.titles)
	w.raw(string(w.Paint(Bold, lines[0])) + "\n")
	for _, row := range t.cells {
		w.raw(strings.Join(t.lines(w, row), "\n") + "\n")
	}
	return true
}

// TableOf writes a table with a row for each element of a list.
func TableOf[T any](w *Text, header []string, list []T, row func(*T) []string) {
	w.Table(header, Rows(list, row))
}

// Rows returns a row for each element of a list.
func Rows[T any](list []T, row func(*T) []string) [][]string {
	rows := make([][]string, len(list))
	for i := range list {
		rows[i] = row(&list[i])
	}
	return rows
}

type table struct {
	titles []string
	free   []bool // columns of free text
	cells  [][]string
	widths []int // of the columns
	least  int   // columns that a cell of free text keeps
}

// lay computes the width of each column. It reports whether the columns fit side by side; they always fit a width of
// 0.
func (t *table) lay(width int) bool {
	t.widths = make([]int, len(t.titles))
	left, whole := width-gap*(len(t.titles)-1), make([]int, len(t.titles))
	for i, title := range t.titles {
		t.widths[i], whole[i] = columns(title), columns(title)
		for _, row := range t.cells {
			n := columns(row[i])
			whole[i] = max(whole[i], n)
			if n > short && !t.free[i] {
				n = short
				for word := range strings.FieldsSeq(row[i]) {
					n = max(n, columns(word))
				}
			}
			t.widths[i] = max(t.widths[i], min(n, whole[i]))
			if t.free[i] {
				t.widths[i] = max(columns(title), min(t.least, whole[i]))
			}
		}
		left -= t.widths[i]
	}
	if width == 0 {
		t.widths = whole
		return true
	}
	if left < 0 {
		return false
	}
	for _, free := range []bool{false, true} {
		for more := true; more && left > 0; {
			more = false
			for i := range t.widths {
				if t.free[i] == free && t.widths[i] < whole[i] && left > 0 {
					t.widths[i]++
					left--
					more = true
				}
			}
		}
	}
	return !slices.ContainsFunc(t.cells, func(row []string) bool {
		for i, cell := range row {
			if !t.free[i] && len(Lines(cell, t.widths[i])) > mostLines {
				return true
			}
		}
		return false
	})
}

// lines lays out one row.
func (t *table) lines(w *Text, row []string) []string {
	cells, height := make([][]string, len(row)), 1
	for i, cell := range row {
		if cells[i] = Lines(cell, t.widths[i]); t.free[i] {
			cells[i] = []string{w.Cut(cell, t.widths[i])}
		}
		height = max(height, len(cells[i]))
	}
	lines := make([]string, height)
	for i := range lines {
		var b strings.Builder
		for j := range cells {
			cell := ""
			if i < len(cells[j]) {
				cell = cells[j][i]
			}
			b.WriteString(cell + strings.Repeat(" ", max(0, t.widths[j]-columns(cell))+gap))
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// Lines breaks a text between words into lines of at most width columns. It returns a text that fits unchanged. A
// longer word keeps its length.
func Lines(text string, width int) (lines []string) {
	if columns(text) <= width {
		return []string{text}
	}
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && columns(line)+1+columns(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}

// records writes each row as lines of title and cell.
func (t *table) records(w *Text) {
	for i, row := range t.cells {
		if i > 0 {
			w.raw("\n")
		}
		pairs := make([][2]string, len(row))
		for j, cell := range row {
			pairs[j] = [2]string{strings.ToLower(t.titles[j]), cell}
		}
		w.Fields(pairs...)
	}
}
