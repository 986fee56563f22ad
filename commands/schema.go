package commands

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"mailroom/commands/parameter"
	"mailroom/orchestrator/store"
)

// Schema returns the JSON Schema of the command's parameters, for tools that check or offer them.
func (d *Definition) Schema() *jsonschema.Schema {
	s := parameter.Schema(d.Params())
	s.Description = d.Summary()
	return s
}

// opaque holds the schemas of types that marshal themselves.
var opaque = map[reflect.Type]*jsonschema.Schema{
	// An empty schema would be written as true, which clients refuse.
	reflect.TypeFor[json.RawMessage]():   {Description: "any JSON value"},
	reflect.TypeFor[store.Rows]():        {Type: "array", Items: &jsonschema.Schema{Type: "object"}},
	reflect.TypeFor[jsonschema.Schema](): {Type: "object"},
}

// ResultSchema returns the JSON Schema of the command's answer when the command succeeds. The schema allows further
// keys, because a later version may add some.
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
			return nil, fmt.Errorf("%s: the result must not have the key %s, which every answer has", d.Name, key)
		}
	}
	s.Properties["success"] = &jsonschema.Schema{Type: "boolean"}
	s.Properties["action"] = &jsonschema.Schema{Type: "string"}
	s.PropertyOrder = append([]string{"success", "action"}, s.PropertyOrder...)
	s.Required = append([]string{"success", "action"}, s.Required...)
	open(s)
	return s, nil
}

// open allows further keys in a schema and in all schemas below it.
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
