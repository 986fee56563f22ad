package commands

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"mailroom/orchestrator/store"
)

// Schema is the JSON Schema of the command's parameters, for tools that check or offer them.
func (d *Definition) Schema() *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type: "object", Description: d.Summary(), Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for i := range d.Params() {
		p := &d.Params()[i]
		s.Properties[p.Name] = p.schema()
		s.PropertyOrder = append(s.PropertyOrder, p.Name)
		if p.Required {
			s.Required = append(s.Required, p.Name)
		}
	}
	return s
}

func (p *Param) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Description: p.Desc}
	if p.Default != "" {
		s.Default = p.defaultJSON()
	}
	for _, v := range p.OneOf {
		s.Enum = append(s.Enum, v)
	}
	switch p.Kind {
	case JSON: // anything, unless it says otherwise
		if p.TextOrObject {
			s.AnyOf = []*jsonschema.Schema{{Type: "string"}, {Type: "object"}} // a list of types is refused by some hosts
		} else if p.Object {
			s.Type = "object"
		}
	case Span, Integer:
		s.Type, s.Minimum, s.Maximum = "integer", p.Min, p.Max
	case Number:
		s.Type, s.Minimum, s.Maximum = "number", p.Min, p.Max
	case List:
		s.Type, s.Items = "array", &jsonschema.Schema{Type: "string"}
		s.MinItems, s.MaxItems = whole(p.Min), whole(p.Max)
	case String:
		s.Type = "string"
		setLengths(s, p)
	default:
		s.Type = string(p.Kind)
	}
	return s
}

// setLengths bounds a text. Ours are mostly bounds in bytes and a schema's are in characters, of which there may be
// fewer: so the upper one holds, and of the lower one only that the text is not empty. The schema never refuses what
// Run takes.
func setLengths(s *jsonschema.Schema, p *Param) {
	s.MaxLength = whole(p.Max)
	if p.Min != nil && *p.Min >= 1 {
		s.MinLength = new(1)
	}
	switch p.NameOf {
	case "agent", "agent|group":
		s.Pattern = "^[A-Za-z][A-Za-z0-9_-]{0,56}$"
	case "agent|group|role":
		s.Pattern = "^([A-Za-z][A-Za-z0-9_-]{0,56}|role:.+)$"
	case "id":
		s.MinLength, s.MaxLength = new(1), new(256)
	}
}

func whole(n *float64) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// opaque are types that marshal themselves, and how.
var opaque = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage]():   {Description: "any JSON value"}, // an empty schema would be written as true, which clients refuse
	reflect.TypeFor[store.Rows]():        {Type: "array", Items: &jsonschema.Schema{Type: "object"}},
	reflect.TypeFor[jsonschema.Schema](): {Type: "object"},
}

// ResultSchema is the JSON Schema of the command's answer when it succeeds. It allows further keys: a later version may
// have more.
func (d *Definition) ResultSchema() (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{Type: "object"}
	if !d.handler.result().Implements(reflect.TypeFor[json.Marshaler]()) {
		var err error
		if s, err = jsonschema.ForType(d.handler.result(), &jsonschema.ForOptions{TypeSchemas: opaque}); err != nil {
			return nil, err
		}
	}
	s.Types, s.Type = nil, "object"
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	for _, p := range s.Properties {
		if slices.Equal(p.Types, []string{"null", "array"}) { // Answer writes no null for a list of its own
			p.Types, p.Type = nil, "array"
		}
	}
	for _, key := range []string{"success", "action"} {
		if s.Properties[key] != nil {
			return nil, fmt.Errorf("%s: the result has a key %s, which every answer has already", d.Name, key)
		}
	}
	s.Properties["success"] = &jsonschema.Schema{Type: "boolean"}
	s.Properties["action"] = &jsonschema.Schema{Type: "string"}
	s.PropertyOrder = append([]string{"success", "action"}, s.PropertyOrder...)
	s.Required = append([]string{"success", "action"}, s.Required...)
	open(s)
	return s, nil
}

// open allows further keys in a schema and all below it.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Type == "object" || len(s.Types) > 0 {
		if never := s.AdditionalProperties; never != nil && never.Not != nil {
			s.AdditionalProperties = nil
		}
	}
	for _, below := range s.Properties {
		open(below)
	}
	open(s.Items)
	open(s.AdditionalProperties)
}
