package commands

import (
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A model reads the schemas of all tools of its host before it starts, and again with every request, so their size
// reduces the context that is left to the model. Tools therefore have these shorter schemas instead of Schema and
// ResultSchema, which are for programs. The rules that they leave out still apply, and an error explains a violated
// rule to the caller.

// ToolSchema returns a shorter Schema of the parameters for models. It omits what the tool's description and the list
// of required parameters already contain, the forms of names and ids, and bounds that are not exceeded by accident.
// Each property has a type, because some hosts drop a tool with an untyped property.
func (d *Definition) ToolSchema() *jsonschema.Schema {
	s := d.Schema()
	s.Description = ""
	for _, p := range s.Properties {
		p.Description, _, _ = strings.Cut(p.Description, "; may be left out")
		p.Pattern, p.MinLength = "", nil
		if p.MaxLength != nil && (*p.MaxLength <= 256 || *p.MaxLength > 8192) {
			// an id or a name, or more than a model writes
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
// accept as a reference, so lists within lists are left out.
func anyJSON() []*jsonschema.Schema {
	simple := func() (list []*jsonschema.Schema) { // built twice, because nodes of a schema must not be shared
		for _, kind := range []string{"string", "number", "boolean", "object"} {
			list = append(list, &jsonschema.Schema{Type: kind})
		}
		return list
	}
	return append(simple(), &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{AnyOf: simple()}},
		&jsonschema.Schema{Type: "null"})
}

// ToolResultSchema returns a shorter ResultSchema for models: the keys that every answer of the command has, and
// their types. It omits what is below those keys, and the keys that all answers have (success, action).
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
