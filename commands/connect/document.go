package connect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"mailroom/orchestrator"
)

// document is a configuration file: JSON in which comments and trailing commas may stand. What is not changed keeps its form to
// the byte.
type document struct {
	root hujson.Value
	unit string // by which each level is indented
	err  error  // why it cannot be changed as it was to be: something of the user's own is in the way
}

// parseDocument reads a file's text; an empty one is an empty object.
func parseDocument(text []byte) (*document, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	if _, is := root.Value.(*hujson.Object); !is {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "it is no JSON object")
	}
	if name := doubled(&root); name != "" {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "%q stands twice in one object, of which the host may take another than Mailroom", orchestrator.Clip(name))
	}
	d := &document{root: root, unit: "  "}
	if ms := root.Value.(*hujson.Object).Members; len(ms) > 0 {
		if own := margin(ms[0].Name.BeforeExtra); own != "" {
			d.unit = own
		}
	}
	return d, nil
}

// maxDepth bounds how many objects and lists may stand in each other: the parser takes stack for each, and a program whose stack is
// too large is ended.
const maxDepth = 1000

// parse parses JSON in which comments and trailing commas may stand.
func parse(text []byte) (hujson.Value, error) {
	if depth(text) > maxDepth {
		return hujson.Value{}, fmt.Errorf("more than %d objects and lists stand in each other", maxDepth)
	}
	return hujson.Parse(text)
}

// skipped are what brackets mean nothing in: strings and comments.
var skipped = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/`)

// depth returns how many objects and lists stand in each other.
func depth(text []byte) (deepest int) {
	at := 0
	for _, b := range skipped.ReplaceAll(text, nil) {
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

// doubled returns a name that two members of one object have; "" is none.
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

// standardized returns JSON without its comments and trailing commas; nil if it is none.
func standardized(text []byte) []byte {
	v, err := parse(text)
	if err != nil {
		return nil
	}
	v.Standardize()
	return v.Pack()
}

func (d *document) text() []byte { return d.root.Pack() }

// at returns the object at the end of a path of names; nil if there is none. With create it is made, and the objects above
// it.
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

// put sets a member of an object that stands so many objects deep. One whose value is the same already keeps its form.
func (d *document) put(o *hujson.Object, depth int, name string, value any) {
	before := d.indent(depth)
	if n := len(o.Members); n > 0 {
		before = like(o.Members[n-1].Name.BeforeExtra, before)
	} else if !bytes.Contains(o.AfterExtra, []byte("\n")) {
		o.AfterExtra = d.indent(depth - 1)
	}
	m := member(o, name)
	if m == nil {
		o.Members = append(o.Members, hujson.ObjectMember{Name: hujson.Value{BeforeExtra: before, Value: hujson.String(name)}})
		m = &o.Members[len(o.Members)-1]
	} else if before = m.Name.BeforeExtra; same(m.Value, value) {
		return
	}
	m.Value = d.value(margin(before), value)
	m.Value.BeforeExtra = hujson.Extra(" ")
}

// drop removes a member.
func drop(o *hujson.Object, name string) {
	o.Members = slices.DeleteFunc(o.Members, func(m hujson.ObjectMember) bool { return nameOf(&m) == name })
	if len(o.Members) == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0 {
		o.AfterExtra = nil
	}
}

// list returns the array that is a member of an object; nil if there is none.
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

// listAt returns the list at the end of a path, which is made if nothing is there; nil, with d.err, if something else is.
func (d *document) listAt(path ...string) *hujson.Array {
	last := len(path) - 1
	in := d.at(true, path[:last]...)
	if in != nil && member(in, path[last]) == nil {
		d.put(in, len(path), path[last], []any{})
	}
	a := list(in, path[last])
	if a == nil {
		d.err = fmt.Errorf("%s is something else than a list", strings.Join(path, "."))
	}
	return a
}

// add appends a value to an array that stands so many objects and arrays deep.
func (d *document) add(a *hujson.Array, depth int, value any) {
	before := d.indent(depth)
	if n := len(a.Elements); n > 0 {
		before = like(a.Elements[n-1].BeforeExtra, before)
	} else if !bytes.Contains(a.AfterExtra, []byte("\n")) {
		a.AfterExtra = d.indent(depth - 1)
	}
	v := d.value(margin(before), value)
	v.BeforeExtra = before
	a.Elements = append(a.Elements, v)
}

// like is the space before a new neighbour: that before the last one if it begins a line and has no comment, otherwise usual.
func like(before, usual hujson.Extra) hujson.Extra {
	if len(bytes.TrimSpace(before)) == 0 && bytes.Contains(before, []byte("\n")) {
		return before
	}
	return usual
}

func (d *document) indent(depth int) hujson.Extra {
	return hujson.Extra("\n" + strings.Repeat(d.unit, depth))
}

// margin is the space at the beginning of the line that such space leads to.
func margin(before hujson.Extra) string {
	line := string(before[bytes.LastIndexByte(before, '\n')+1:])
	if strings.TrimSpace(line) != "" {
		return ""
	}
	return line
}

// value returns a value in the form in which a person would write it on a line with such a margin.
func (d *document) value(margin string, value any) hujson.Value {
	text, err := orchestrator.JSON(value)
	if err != nil {
		panic(err) // strings, numbers, booleans, lists and structs of them
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, margin, d.unit); err != nil {
		panic(err)
	}
	v, err := hujson.Parse(indented.Bytes())
	if err != nil {
		panic(err)
	}
	return v
}

// same reports whether a value of a document is this one.
func same(v hujson.Value, value any) bool {
	text, err := orchestrator.JSON(value)
	return err == nil && bytes.Equal(compact(v), text)
}

// compact is a value without comments and space.
func compact(v hujson.Value) []byte {
	v = v.Clone()
	v.Minimize()
	return bytes.TrimSpace(v.Pack())
}

// decode reads a file of JSON, in which comments may stand, into v. One that is not there or is no JSON leaves v as it is.
func decode(path string, v any) {
	if text, _, err := read(path); err == nil {
		json.Unmarshal(standardized(text), v)
	}
}
