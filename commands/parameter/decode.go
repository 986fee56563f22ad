package parameter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// maxParams bounds the JSON of one call in bytes: the largest payload, and room for the other parameters.
const maxParams = orchestrator.MaxPayload + 256<<10

// Decode fills the struct that into points to from a JSON object. It is strict: unknown and repeated keys, wrong
// types, values out of bounds, trailing data, NUL and invalid UTF-8 are errors that name the parameter. An empty raw
// counts as {}. With fold, keys match without regard to case.
func Decode(raw json.RawMessage, params []Param, fold bool, into any) error {
	values, err := objectOf(raw, params, fold)
	if err != nil {
		return err
	}
	target := reflect.ValueOf(into).Elem()
	for i := range params {
		p := &params[i]
		value, given := values[p.Name]
		if string(value) == "null" && p.Kind != JSON {
			given = false // in JSON, null means that the parameter is left out
		}
		if !given && p.Default != "" {
			value, given = p.defaultJSON(), true
		}
		if !given {
			if p.Required {
				return p.invalid("missing (%s)", p.Desc)
			}
			continue
		}
		field := target.Field(p.index)
		if p.pointer {
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
		if err := p.decode(value, field); err != nil {
			return err
		}
	}
	return nil
}

// DecodeObject decodes a JSON object that is the value of a parameter into a struct with the tags of Param, as
// strictly as Decode. It panics if the tags are invalid. The error invalid_params names the parameter and the key in
// its object.
func DecodeObject[P any](parameter string, raw json.RawMessage) (p P, err error) {
	params, err := Of(p)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", p, err))
	}
	err = Decode(raw, params, false, &p)
	if e, ok := errors.AsType[*orchestrator.Error](err); ok {
		e.Message = parameter + ": " + e.Message
		if key, ok := e.Details["parameter"].(string); ok {
			e.Details["parameter"] = parameter + "." + key
		}
	}
	return p, err
}

func (p *Param) defaultJSON() json.RawMessage {
	if p.Kind == String {
		return orchestrator.JSONString(p.Default)
	}
	return json.RawMessage(p.Default)
}

// objectOf returns the members of a JSON object by the names of the parameters. It returns invalid_params for a key
// that is not a parameter, for a repeated key, and for a value that is not an object.
func objectOf(raw json.RawMessage, params []Param, fold bool) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if len(raw) > maxParams {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams,
			"the parameters must have at most %d bytes, but have %d", maxParams, len(raw))
	}
	if IsUTF16(raw) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the parameters must be UTF-8, but are UTF-16").
			WithHint("Save the parameters as UTF-8")
	}
	if !utf8.Valid(raw) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the parameters must be valid UTF-8")
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the parameters must not contain a NUL byte")
	}
	if values, ok := plainObject(raw, params, fold); ok {
		return values, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // otherwise, the error for a number that is too large repeats all its digits
	if token, err := dec.Token(); err != nil {
		return nil, notJSON(err)
	} else if token != json.Delim('{') {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the parameters must be a JSON object").
			WithHint(`Write {"key": ...}`)
	}
	values := map[string]json.RawMessage{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		key, _ := token.(string)
		p := named(key, params, fold)
		if p == nil {
			return nil, unknownName(key, params)
		}
		if _, twice := values[p.Name]; twice {
			return nil, p.invalid("given twice")
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, notJSON(err)
		}
		values[p.Name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams,
			"the parameters must be a single JSON object, with nothing after it")
	}
	return values, nil
}

// plainObject is the fast path for a valid object. It returns false for any other; the slow path then finds the
// error.
func plainObject(raw json.RawMessage, params []Param, fold bool) (values map[string]json.RawMessage, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil || len(members) != countMembers(raw) {
		return nil, false
	}
	values = make(map[string]json.RawMessage, len(members))
	for key, value := range members {
		p := named(key, params, fold)
		if p == nil {
			return nil, false
		}
		values[p.Name] = value
	}
	return values, len(values) == len(members)
}

// countMembers counts the members of a valid JSON object, including repeated ones.
func countMembers(object []byte) (n int) {
	depth, inString := 0, false
	for i := 0; i < len(object); i++ {
		switch c := object[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ':' && depth == 1:
			n++
		}
	}
	return n
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end")
	}
	return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the parameters must be valid JSON", Err: err}
}

// named returns the parameter with the name key, or nil if there is none.
func named(key string, params []Param, fold bool) *Param {
	for i := range params {
		if params[i].Name == key || (fold && strings.EqualFold(params[i].Name, key)) {
			return &params[i]
		}
	}
	return nil
}

// unknownName returns the error for a key that is not a parameter.
func unknownName(key string, params []Param) error {
	names := make([]string, len(params))
	for i := range params {
		names[i] = params[i].Name
	}
	e := orchestrator.Errorf(orchestrator.InvalidParams, "unknown parameter")
	if len(params) == 0 || !params[0].Private {
		e.Message = fmt.Sprintf("unknown parameter %q", orchestrator.Clip(key))
		e.Details = map[string]any{"parameter": orchestrator.Clip(key)}
	}
	if near := Meant(key, names); len(near) > 0 {
		return e.WithHint("Did you mean %s?", strings.Join(near, " or "))
	}
	if len(names) == 0 {
		return e.WithHint("This command has no parameters")
	}
	return e.WithHint("Use one of: %s", strings.Join(names, ", "))
}

// decode stores one JSON value in a field.
func (p *Param) decode(value json.RawMessage, field reflect.Value) error {
	if err := orchestrator.CheckPairs(p.Name, value); err != nil {
		return err
	}
	switch p.Kind {
	case JSON:
		if p.TextOrObject && value[0] != '"' && value[0] != '{' {
			return p.wrongType(value, "a string or an object")
		}
		if p.Object && value[0] != '{' {
			return p.notAnObject(value)
		}
		field.SetBytes(bytes.Clone(value))
		return p.lengthInBounds(len(value))
	case String:
		s, err := p.text(value)
		field.SetString(s)
		return err
	case Boolean:
		var b bool
		if err := json.Unmarshal(value, &b); err != nil {
			return p.wrongType(value, "true or false")
		}
		field.SetBool(b)
	case Integer, Span:
		n, err := wholeNumber(string(value))
		if errors.Is(err, strconv.ErrRange) {
			return p.mustBe(cmp.Or(p.within(), "a 64-bit integer"), string(value))
		}
		if err != nil {
			what := "a whole number"
			if p.Kind == Span {
				what = "a whole number of seconds"
			}
			if bounds := p.Bounds(); bounds != "" {
				what += " (" + strings.TrimSuffix(bounds, " seconds") + ")"
			}
			return p.wrongType(value, what)
		}
		field.SetInt(n)
		return p.inBounds(float64(n), strconv.FormatInt(n, 10))
	case Number:
		var n float64
		if err := json.Unmarshal(value, &n); err != nil {
			return p.wrongType(value, "a number")
		}
		field.SetFloat(n)
		return p.inBounds(n, string(value))
	case List:
		return p.decodeList(value, field)
	}
	return nil
}

// wholeNumber parses a whole JSON number, written as 5, 5.0 or 5e0. It returns strconv.ErrRange if the number is too
// large, or is above 2^53 and not written in digits alone, and strconv.ErrSyntax if the text is not a whole number.
func wholeNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if !errors.Is(err, strconv.ErrSyntax) {
		return n, err
	}
	f, ferr := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(ferr, strconv.ErrSyntax) || f != math.Trunc(f):
		return 0, err
	case math.Abs(f) > 1<<53:
		return 0, strconv.ErrRange
	}
	return int64(f), nil
}

func (p *Param) decodeList(value json.RawMessage, field reflect.Value) error {
	var values []json.RawMessage
	if err := json.Unmarshal(value, &values); err != nil {
		return p.wrongType(value, "a list of strings")
	}
	element := *p
	element.Min, element.Max = nil, nil // they bound the list, not its elements
	list := make([]string, len(values))
	for i := range values {
		var err error
		if list[i], err = element.text(values[i]); err != nil {
			return err
		}
	}
	field.Set(reflect.ValueOf(list))
	return p.lengthInBounds(len(list))
}

// text decodes a JSON string, validates it, and normalizes a name.
func (p *Param) text(value json.RawMessage) (s string, err error) {
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", p.wrongType(value, "a string")
	}
	return p.checkText(s)
}

// notAnObject returns the error for a value that is not an object. Programs that write calls often put an object into
// a string.
func (p *Param) notAnObject(value json.RawMessage) error {
	var text string
	if json.Unmarshal(value, &text) == nil && strings.HasPrefix(strings.TrimSpace(text), "{") {
		return p.invalid("must be an object, but is a string that contains JSON").
			WithHint(`Give the object itself, without quotation marks around it: {"key": ...}`)
	}
	return p.invalid("must be an object").WithHint(`Write {"key": ...}`)
}

func (p *Param) wrongType(value json.RawMessage, want string) error {
	return p.mustBe(want, string(value))
}

// mustBe returns the error for a value that breaks a rule. The error of a private parameter does not contain the
// value.
func (p *Param) mustBe(rule, value string) *orchestrator.Error {
	if p.Private {
		return p.invalid("must be %s", rule)
	}
	return p.invalid("must be %s, but is %s", rule, orchestrator.Clip(value))
}

// IsUTF16 reports whether a text begins with the UTF-16 byte order mark, as files on Windows may.
func IsUTF16(text []byte) bool {
	return bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))
}
