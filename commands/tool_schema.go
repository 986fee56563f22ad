package commands

import (
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A model reads the schemas of all tools that its host offers before it does anything, and again with every request:
// what they weigh is taken from the room in which it thinks. So tools have these in place of Schema and ResultSchema,
// which are for programs. What they leave out holds all the same, and an error says so to whoever comes upon it.

// ToolSchema describes the parameters for models: it is Schema without what the tool's description and the list of what
// is required say already, without the forms of names and ids, and without bounds that nobody comes upon by chance.
// Each property has a type, since some hosts leave out a tool with one that has none.
func (d *Definition) ToolSchema() *jsonschema.Schema {
	s := d.Schema()
	s.Description = ""
	for _, p := range s.Properties {
		p.Description, _, _ = strings.Cut(p.Description, "; may be left out")
		p.Pattern, p.MinLength = "", nil
		if p.MaxLength != nil && (*p.MaxLength <= 256 || *p.MaxLength > 8192) {
			// an id, a name; more than a model writes
			p.MaxLength = nil
		}
		if p.Minimum != nil && (*p.Minimum == 0 || *p.Minimum == 1) {
			p.Minimum = nil
		}
		if p.Maximum != nil && *p.Maximum > 3600 {
			p.Maximum = nil
		}
		if p.Type == "" && p.AnyOf == nil {
			p.AnyOf = anyJSON()
		}
	}
	return s
}

// anyJSON lists the types that a JSON value may have. A list needs the types of its elements, which some hosts do not
// take from a reference: lists in lists are left out.
func anyJSON() []*jsonschema.Schema {
	simple := func() (list []*jsonschema.Schema) { // made anew, since nodes of a schema may not be shared
		for _, kind := range []string{"string", "number", "boolean", "object"} {
			list = append(list, &jsonschema.Schema{Type: kind})
		}
		return list
	}
	return append(simple(), &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{AnyOf: simple()}},
		&jsonschema.Schema{Type: "null"})
}

// ToolResultSchema describes the result for models: the keys that every answer of the command has and their types,
// without what is below them, and without what the answers of all commands have (success, action).
func (d *Definition) ToolResultSchema() (*jsonschema.Schema, error) {
	full, err := d.ResultSchema()
	if err != nil {
		return nil, err
	}
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, key := range full.Required {
		if p := full.Properties[key]; key != "success" && key != "action" && p.Type != "" {
			s.PropertyOrder = append(s.PropertyOrder, key)
			s.Properties[key] = &jsonschema.Schema{Type: p.Type}
		}
	}
	return s, nil
}
