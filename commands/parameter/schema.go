package parameter

import "github.com/google/jsonschema-go/jsonschema"

// Schema returns the JSON Schema of an object of these parameters, for tools that check or offer them.
func Schema(params []Param) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for i := range params {
		p := &params[i]
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
	case JSON: // any value, unless a check restricts it
		if p.TextOrObject {
			s.AnyOf = []*jsonschema.Schema{{Type: "string"}, {Type: "object"}} // some hosts refuse a list of types
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

// setLengths sets the length bounds of a text. Most of our bounds count bytes, but a schema counts characters, of
// which a text may have fewer. The schema therefore keeps the upper bound, and of a lower bound only that the text is
// not empty. It never refuses a value that Run accepts.
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
