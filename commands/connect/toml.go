package connect

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlText is a TOML configuration. Edits replace parts of it, and everything else keeps its form byte for byte.
type tomlText struct {
	text  []byte
	eol   string
	parts []tomlPart // in the order of the text
}

// tomlPart is a key with its value, the head of a table, or a comment on its own line.
type tomlPart struct {
	path       []string // from the root; nil for a comment
	start, end int      // of the key and the value; for a head, of its line
	name       int      // where the last word of the key starts
	value      int      // where the value starts; 0 for a head or a comment
	inline     bool     // the part is within another part
	table      bool     // the value is an inline table
}

// parseTOML parses a configuration. It also returns the configuration as Go values.
func parseTOML(text []byte) (*tomlText, map[string]any, error) {
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		return nil, nil, err
	}
	t := &tomlText{text: text, eol: lineEnd(text)}
	p := unstable.Parser{KeepComments: true}
	p.Reset(text)
	var table []string
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Comment:
			t.parts = append(t.parts, tomlPart{start: int(e.Raw.Offset), end: int(e.Raw.Offset + e.Raw.Length)})
		case unstable.KeyValue:
			t.add(e, table, false)
		default:
			table = nil
			var at int
			for key := e.Key(); key.Next(); at = int(key.Node().Raw.Offset) {
				table = append(table, string(key.Node().Data))
			}
			start, end := t.line(at)
			t.parts = append(t.parts, tomlPart{path: table, start: start, end: end})
		}
	}
	return t, all, p.Error()
}

// add adds a value, and the values within it, to the parts.
func (t *tomlText) add(e *unstable.Node, table []string, inline bool) {
	start := int(e.Raw.Offset)
	part := tomlPart{path: slices.Clone(table), start: start, end: start + int(e.Raw.Length), inline: inline,
		table: e.Value().Kind == unstable.InlineTable}
	var after int
	for key := e.Key(); key.Next(); {
		raw := key.Node().Raw
		part.path = append(part.path, string(key.Node().Data))
		part.name, after = int(raw.Offset), int(raw.Offset+raw.Length)
	}
	part.value = part.end - len(bytes.TrimLeft(t.text[after:part.end], " \t="))
	t.parts = append(t.parts, part)
	if !part.table {
		return
	}
	for in := e.Value().Children(); in.Next(); {
		if in.Node().Kind == unstable.KeyValue {
			t.add(in.Node(), part.path, true)
		}
	}
}

// line returns where the line that contains a position starts, and where the next line starts.
func (t *tomlText) line(at int) (start, end int) {
	start = bytes.LastIndexByte(t.text[:at], '\n') + 1
	if n := bytes.IndexByte(t.text[at:], '\n'); n >= 0 {
		return start, at + n + 1
	}
	return start, len(t.text)
}

// tomlEdit replaces the text between two positions.
type tomlEdit struct {
	start, end int
	text       string
}

// edited returns the text with edits that do not overlap.
func (t *tomlText) edited(edits []tomlEdit) []byte {
	slices.SortStableFunc(edits, func(a, b tomlEdit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, t.text[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, t.text[at:]...)
}

func (p *tomlPart) is(path ...string) bool { return slices.Equal(p.path, path) }

// within reports whether a part is at or below a path.
func (p *tomlPart) within(path []string) bool {
	return len(p.path) >= len(path) && slices.Equal(p.path[:len(path)], path)
}

// tomlField is a value in TOML for a key of a table; "" removes the key.
type tomlField struct{ name, value string }

// set sets values in an existing table of any form, and keeps its other values.
func (t *tomlText) set(path []string, has map[string]any, fields []tomlField) ([]byte, error) {
	var edits []tomlEdit
	var last *tomlPart
	for i := range t.parts {
		if p := &t.parts[i]; p.value > 0 && len(p.path) == len(path)+1 && p.within(path) &&
			(last == nil || last.inline == p.inline) {
			last = p
		}
	}
	if last == nil {
		return nil, errors.New("the table mcp_servers.mailroom contains no keys")
	}
	more := ""
	for _, f := range fields {
		i := slices.IndexFunc(t.parts,
			func(p tomlPart) bool { return p.value > 0 && p.is(append(slices.Clone(path), f.name)...) })
		switch {
		case i < 0 && f.value == "":
		case i < 0:
			line := string(t.text[last.start:last.name]) + f.name + " = " + f.value
			if last.inline {
				more += ", " + line
			} else {
				more += line + t.eol
			}
		case f.value == "":
			edits = append(edits, t.cut(i, i))
		case !sameTOML(has[f.name], f.value):
			edits = append(edits, tomlEdit{t.parts[i].value, t.parts[i].end, f.value})
		}
	}
	at := last.end
	if !last.inline {
		if _, at = t.line(last.end); at > 0 && t.text[at-1] != '\n' {
			more = t.eol + strings.TrimSuffix(more, t.eol)
		}
	}
	if strings.TrimSpace(more) != "" {
		edits = append(edits, tomlEdit{at, at, more})
	}
	return t.edited(edits), nil
}

// sameTOML reports whether a value equals that of a text in TOML.
func sameTOML(has any, value string) bool {
	var v struct{ V any }
	return toml.Unmarshal([]byte("V = "+value), &v) == nil && fmt.Sprintf("%#v", v.V) == fmt.Sprintf("%#v", has)
}

// cut removes adjacent parts: their lines, or what is between the commas of an inline table.
func (t *tomlText) cut(first, last int) tomlEdit {
	p, q := &t.parts[first], &t.parts[last]
	if !p.inline {
		start, _ := t.line(p.start)
		_, end := t.line(q.end)
		return tomlEdit{start, end, ""}
	}
	if next := t.neighbour(last, 1); next != nil {
		return tomlEdit{p.start, next.start, ""}
	}
	end := q.end
	if rest := bytes.TrimLeft(t.text[end:], " \t"); bytes.HasPrefix(rest, []byte(",")) {
		end = len(t.text) - len(rest) + 1
	}
	if before := t.neighbour(first, -1); before != nil {
		return tomlEdit{before.end, end, ""}
	}
	return tomlEdit{p.start, end, ""}
}

// neighbour returns the part before or after one in the same inline table, or nil if there is none.
func (t *tomlText) neighbour(i, step int) *tomlPart {
	holder := t.holder(&t.parts[i])
	for j := i + step; j >= 0 && j < len(t.parts) && t.parts[j].start > holder; j += step {
		if o := &t.parts[j]; o.inline && t.holder(o) == holder {
			return o
		}
	}
	return nil
}

// holder returns where the innermost inline table that contains a part starts.
func (t *tomlText) holder(p *tomlPart) (start int) {
	for i := range t.parts {
		if o := &t.parts[i]; o.table && o.value < p.start && p.end < o.end {
			start = o.value
		}
	}
	return start
}

// remove removes everything at or below a path: tables, values and inline tables, and the comments between them.
func (t *tomlText) remove(path []string) []byte {
	var edits []tomlEdit
	reached := 0 // everything before this position is handled
	for i := range t.parts {
		p := &t.parts[i]
		if p.path == nil || !p.within(path) || p.start < reached {
			continue
		}
		last := i
		for next := p; p.inline && next != nil && next.within(path); next = t.neighbour(last, 1) {
			last = slices.IndexFunc(t.parts,
				func(o tomlPart) bool { return o.start == next.start && o.name == next.name })
		}
		e := t.cut(i, last)
		before, after := t.beside(i)
		if n := len(edits); n > 0 && before >= 0 && t.parts[before].within(path) && !p.inline {
			e.start = edits[n-1].end // comments and blank lines between our parts
		}
		if i > 0 && t.marks(i-1, beginMark) {
			e.start, _ = t.line(t.parts[i-1].start)
		}
		if !p.inline && (before < 0 || !t.parts[before].within(path)) {
			e.start -= blankBefore(t.text[:e.start])
		}
		edits, reached = append(edits, e), e.end
		if after >= 0 && t.parts[after].within(path) {
			continue
		}
		for j := i + 1; j < len(t.parts); j++ {
			if t.marks(j, endMark) && t.parts[j].start >= reached {
				start, end := t.line(t.parts[j].start)
				edits = append(edits, tomlEdit{start, end, ""})
				break
			}
		}
	}
	return t.edited(edits)
}

// beside returns the nearest parts before and after one that are neither comments nor within another part, or -1.
func (t *tomlText) beside(i int) (before, after int) {
	is := func(p tomlPart) bool { return p.path != nil && !p.inline }
	before, after = i-1, slices.IndexFunc(t.parts[i+1:], is)
	for before >= 0 && !is(t.parts[before]) {
		before--
	}
	if after >= 0 {
		after += i + 1
	}
	return before, after
}

func (t *tomlText) marks(i int, mark string) bool {
	p := &t.parts[i]
	return p.path == nil && strings.TrimSpace(string(t.text[p.start:p.end])) == mark
}

// blankBefore returns the length of the blank line at the end of a text, or 0 if there is none.
func blankBefore(text []byte) int {
	line := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if len(line) < len(text) && (len(line) == 0 || line[len(line)-1] == '\n') {
		return len(text) - len(line)
	}
	return 0
}
