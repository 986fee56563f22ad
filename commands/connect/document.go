package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// document is a configuration file: JSON that may contain comments and trailing commas. Unchanged parts keep their
// form byte for byte.
type document struct {
	root hujson.Value
	unit string    // indentation of one level
	eol  string    // line ending
	was  *document // the file before Mailroom changed it; nil if it did not exist or is unknown
	err  error     // why the change is impossible: something of the user's own conflicts with it
}

// parseDocument parses the text of a file. An empty text is an empty object.
func parseDocument(text []byte) (*document, error) {
	d := &document{unit: "  ", eol: lineEnd(text)}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}" + d.eol)
	}
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	if _, is := root.Value.(*hujson.Object); !is {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the file must contain a JSON object")
	}
	if name := doubled(&root); name != "" {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams,
			"the key %q occurs twice in one object, so the host and Mailroom might use different values", orchestrator.Clip(name))
	}
	d.root = root
	if ms := root.Value.(*hujson.Object).Members; len(ms) > 0 {
		if own := margin(ms[0].Name.BeforeExtra); own != "" {
			d.unit = own
		}
	}
	return d, nil
}

// maxDepth bounds the nesting of objects and lists. The parser uses stack for each level, and a program whose stack
// becomes too large is terminated.
const maxDepth = 1000

// lineEnd returns the line ending of a text, judged by its first line.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// parse parses JSON that may contain comments and trailing commas. It also accepts a comment at the end of the text,
// which the parser alone does not.
func parse(text []byte) (hujson.Value, error) {
	if depth(text) > maxDepth {
		return hujson.Value{}, fmt.Errorf("objects and lists must be nested at most %d levels deep", maxDepth)
	}
	v, err := hujson.Parse(append(bytes.Clone(text), '\n'))
	if err != nil {
		return v, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	v.AfterExtra = v.AfterExtra[:len(v.AfterExtra)-1]
	return v, nil
}

// skipped matches strings and comments, in which brackets have no meaning.
var skipped = pattern.New(`(?s)"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/`)

// depth returns how deeply objects and lists are nested.
func depth(text []byte) (deepest int) {
	at := 0
	for _, b := range skipped().ReplaceAll(text, nil) {
		switch b {
		case '[', '{':
			at++
		case ']', '}':
			at--
		}
		deepest = max(deepest, at)
	}
	return deepest
}

// doubled returns a name that occurs twice in one object, or "" if there is none.
func doubled(v *hujson.Value) (name string) {
	switch in := v.Value.(type) {
	case *hujson.Array:
		for i := 0; i < len(in.Elements) && name == ""; i++ {
			name = doubled(&in.Elements[i])
		}
	case *hujson.Object:
		seen := map[string]bool{}
		for i := 0; i < len(in.Members) && name == ""; i++ {
			m := &in.Members[i]
			if seen[nameOf(m)] {
				return nameOf(m)
			}
			seen[nameOf(m)] = true
			name = doubled(&m.Value)
		}
	}
	return name
}

// standardized returns JSON without its comments and trailing commas, or nil if the text is not valid.
func standardized(text []byte) []byte {
	v, err := parse(text)
	if err != nil {
		return nil
	}
	v.Standardize()
	return v.Pack()
}

func (d *document) text() []byte { return d.root.Pack() }

// at returns the object at a path of names, or nil if there is none. With create, missing objects on the path are
// created.
func (d *document) at(create bool, path ...string) *hujson.Object {
	at := d.root.Value.(*hujson.Object)
	for depth, name := range path {
		m := member(at, name)
		if m == nil && create {
			d.put(at, depth+1, name, struct{}{})
			m = member(at, name)
		}
		if m == nil {
			return nil
		}
		next, is := m.Value.Value.(*hujson.Object)
		if !is {
			return nil
		}
		at = next
	}
	return at
}

func member(o *hujson.Object, name string) *hujson.ObjectMember {
	for i := range o.Members {
		if nameOf(&o.Members[i]) == name {
			return &o.Members[i]
		}
	}
	return nil
}

func nameOf(m *hujson.ObjectMember) string {
	if l, is := m.Name.Value.(hujson.Literal); is {
		return l.String()
	}
	return ""
}

// put sets a member of an object at this nesting depth. A member that already has the value keeps its form.
func (d *document) put(o *hujson.Object, depth int, name string, value any) {
	m := member(o, name)
	if m == nil {
		before, comma := d.room(membersOf(o), depth)
		o.Members = append(o.Members,
			hujson.ObjectMember{Name: hujson.Value{BeforeExtra: before, Value: hujson.String(name)}})
		m = &o.Members[len(o.Members)-1]
		m.Value.BeforeExtra, m.Value.AfterExtra = hujson.Extra(" "), comma
	} else if same(m.Value, value) {
		return
	}
	m.Value.Value = d.value(margin(m.Name.BeforeExtra), value).Value
}

// items gives access to the members of an object or the elements of a list.
type items struct {
	n      int
	first  func(i int) *hujson.Value // with the space and the comments before it
	last   func(i int) *hujson.Value // with the space and the comments after it
	after  *hujson.Extra             // what precedes the closing bracket
	remove func(i int)
}

func membersOf(o *hujson.Object) items {
	return items{
		len(o.Members), func(i int) *hujson.Value { return &o.Members[i].Name },
		func(i int) *hujson.Value { return &o.Members[i].Value },
		&o.AfterExtra, func(i int) { o.Members = slices.Delete(o.Members, i, i+1) },
	}
}

func elementsOf(a *hujson.Array) items {
	at := func(i int) *hujson.Value { return &a.Elements[i] }
	return items{len(a.Elements), at, at, &a.AfterExtra, func(i int) { a.Elements = slices.Delete(a.Elements, i, i+1) }}
}

// room makes room for a new last item. It returns what precedes the new item, and what follows it if a comma must
// follow. Comments at the end stay before the new item, and a trailing comma is kept as one.
func (d *document) room(in items, depth int) (before, comma hujson.Extra) {
	before = d.indent(depth)
	if in.n > 0 {
		before = like(in.first(in.n-1).BeforeExtra, before)
		comma = in.last(in.n - 1).AfterExtra
		if comma != nil {
			comma = hujson.Extra{}
		}
	}
	comments := bytes.TrimRight(*in.after, " \t\r\n")
	if len(comments) > 0 {
		*in.after = (*in.after)[len(comments):]
		if !bytes.Contains(before, []byte("\n")) {
			before = d.indent(depth) // a line comment ends at the line break
		}
		before = append(bytes.Clone(comments), before...)
	}
	if (in.n == 0 || len(comments) > 0) && !bytes.Contains(*in.after, []byte("\n")) {
		*in.after = d.indent(depth - 1)
	}
	return before, comma
}

// cut removes an item. It keeps the comments before and after the item, and the form of the neighbouring items.
func (d *document) cut(in items, i int) {
	first, last := in.first(i), in.last(i)
	kept := withComment(first.BeforeExtra)
	kept = append(kept, withComment(last.AfterExtra)...)
	ended, comma := i == in.n-1, last.AfterExtra != nil
	if next := in.after; len(kept) > 0 {
		if !ended {
			next = &in.first(i + 1).BeforeExtra
		}
		if !bytes.HasPrefix(bytes.TrimLeft(*next, " \t\r"), []byte("\n")) {
			kept = append(kept, d.eol...) // a line comment ends at the line break
		}
		*next = append(kept, *next...)
	}
	if ended && i > 0 {
		before := in.last(i - 1)
		switch {
		case comma && before.AfterExtra == nil:
			before.AfterExtra = hujson.Extra{}
		case !comma && before.AfterExtra != nil: // a comma would follow it
			*in.after = append(bytes.Clone(before.AfterExtra), *in.after...)
			before.AfterExtra = nil
		}
	}
	if in.remove(i); in.n == 1 && len(bytes.TrimSpace(*in.after)) == 0 {
		*in.after = nil
	}
}

// withComment returns extra up to the end of its last comment, or nothing if it has no comment.
func withComment(extra hujson.Extra) hujson.Extra {
	return bytes.Clone(bytes.TrimRight(extra, " \t\r\n"))
}

// drop removes a member.
func (d *document) drop(o *hujson.Object, name string) {
	for i := range o.Members {
		if nameOf(&o.Members[i]) == name {
			d.cut(membersOf(o), i)
			return
		}
	}
}

// dropAll removes the elements for which is returns true, and reports whether there were any.
func (d *document) dropAll(a *hujson.Array, is func(hujson.Value) bool) (any bool) {
	for i := len(a.Elements) - 1; i >= 0; i-- {
		if is(a.Elements[i]) {
			d.cut(elementsOf(a), i)
			any = true
		}
	}
	return any
}

// emptied removes a member that is empty, unless it contains a comment or existed before Mailroom changed the file.
// It reports whether it removed the member.
func (d *document) emptied(path ...string) bool {
	last := len(path) - 1
	in := d.at(false, path[:last]...)
	if in == nil || d.was.has(path...) {
		return false
	}
	m := member(in, path[last])
	if m == nil {
		return false
	}
	if text := string(bytes.TrimSpace(m.Value.Pack())); text != "{}" && text != "[]" {
		return false
	}
	d.drop(in, path[last])
	return true
}

// has reports whether a path exists.
func (d *document) has(path ...string) bool {
	if d == nil {
		return false
	}
	in := d.at(false, path[:len(path)-1]...)
	return in != nil && member(in, path[len(path)-1]) != nil
}

// list returns the array that is a member of an object, or nil if there is none.
func list(o *hujson.Object, name string) *hujson.Array {
	if o == nil {
		return nil
	}
	m := member(o, name)
	if m == nil {
		return nil
	}
	a, _ := m.Value.Value.(*hujson.Array)
	return a
}

// listAt returns the list at a path, and creates it if nothing is there. If something else is there, listAt sets
// d.err and returns nil.
func (d *document) listAt(path ...string) *hujson.Array {
	last := len(path) - 1
	in := d.at(true, path[:last]...)
	if in != nil && member(in, path[last]) == nil {
		d.put(in, len(path), path[last], []any{})
	}
	a := list(in, path[last])
	if a == nil {
		d.err = fmt.Errorf("%s must be a list", strings.Join(path, "."))
	}
	return a
}

// add appends a value to an array at this nesting depth.
func (d *document) add(a *hujson.Array, depth int, value any) {
	before, comma := d.room(elementsOf(a), depth)
	v := d.value(margin(before), value)
	v.BeforeExtra, v.AfterExtra = before, comma
	a.Elements = append(a.Elements, v)
}

// like returns the space before a new item: that of the previous item if it begins a line and has no comment, and
// usual otherwise.
func like(before, usual hujson.Extra) hujson.Extra {
	if len(bytes.TrimSpace(before)) == 0 && bytes.Contains(before, []byte("\n")) {
		return before
	}
	return usual
}

func (d *document) indent(depth int) hujson.Extra {
	return hujson.Extra(d.eol + strings.Repeat(d.unit, depth))
}

// margin returns the indentation at the end of before.
func margin(before hujson.Extra) string {
	line := string(before[bytes.LastIndexByte(before, '\n')+1:])
	if strings.TrimSpace(line) != "" {
		return ""
	}
	return line
}

// substituted matches what OpenCode replaces in the text of its configuration, even within strings. OpenCode
// recognizes it only by the literal brace, which JSON can also write as an escape.
var substituted = pattern.New(`\{(env|file):`)

// value returns a value formatted as a person would write it on a line with this margin.
func (d *document) value(margin string, value any) hujson.Value {
	text, err := orchestrator.JSON(value)
	if err != nil {
		panic(err) // only strings, numbers, booleans, lists and structs of them
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, substituted().ReplaceAll(text, []byte(`\u007b$1:`)), margin, d.unit); err != nil {
		panic(err)
	}
	v, err := hujson.Parse(bytes.ReplaceAll(indented.Bytes(), []byte("\n"), []byte(d.eol)))
	if err != nil {
		panic(err)
	}
	return v
}

// same reports whether v has the given value, in whichever form.
func same(v hujson.Value, value any) bool {
	text, err := orchestrator.JSON(value)
	if err != nil {
		return false
	}
	var is any
	return json.Unmarshal(text, &is) == nil && reflect.DeepEqual(plain(v), is)
}

// plain returns a value in the types of encoding/json.
func plain(v hujson.Value) (is any) {
	v = v.Clone()
	v.Minimize()
	json.Unmarshal(v.Pack(), &is) // v comes from the parser, so it is valid
	return is
}
