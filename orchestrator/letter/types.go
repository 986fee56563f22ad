package letter

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"mailroom/orchestrator"
	"mailroom/orchestrator/nearest"
)

// types lists the message types of document 002, in the document's order. Each has a JSON Schema for its payload in
// schemas/TYPE.json.
var types = []string{"task_assign", "implementation_complete", "validation_passed", "bug_report", "question", "answer",
	statusUpdate}

// statusUpdate is the type of a message in which an agent reports its activity.
const statusUpdate = "status_update"

//go:embed schemas/*.json
var schemaFiles embed.FS

// schemas holds the compiled schema of each type, compiled on first use.
var schemas = func() map[string]func() *jsonschema.Resolved {
	all := map[string]func() *jsonschema.Resolved{}
	for _, kind := range types {
		all[kind] = sync.OnceValue(func() *jsonschema.Resolved { return compile(kind) })
	}
	return all
}()

// compile compiles the schema of a type. It panics if the schema is invalid: the schemas are part of the program, and
// a test compiles all of them.
func compile(kind string) *jsonschema.Resolved {
	var s jsonschema.Schema
	text, err := fs.ReadFile(schemaFiles, "schemas/"+kind+".json")
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		panic(fmt.Sprintf("the schema of %s: %v", kind, err))
	}
	return resolved(&s)
}

func resolved(s *jsonschema.Schema) *jsonschema.Resolved {
	r, err := s.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("a schema of ours: %v", err))
	}
	return r
}

// Check checks the payload of a message against the schema of document 002 for its type, and that a status_update
// names its sender. It returns the activity that a status_update reports, or "" for any other message. Types that the
// document does not have pass. Check is safe for concurrent use. Error: invalid_params, with a message that begins
// with the path of the fault, such as `payload.bugs[0].line: ...`; the error details contain the path under
// parameter.
func Check(kind, sender string, payload json.RawMessage) (says orchestrator.PresenceStatus, err error) {
	schema, known := schemas[kind]
	if !known {
		return "", nil
	}
	var value any
	dec := json.NewDecoder(strings.NewReader(string(payload)))
	dec.UseNumber() // a number may be too large for a float64, and is kept unchanged
	if err := dec.Decode(&value); err != nil {
		return "", misfit(kind, "payload", "not valid JSON: %v", err)
	}
	value = numbered(value)
	if schema().Validate(value) != nil {
		return "", locate(kind, "payload", schema().Schema(), value)
	}
	if kind != statusUpdate {
		return "", nil
	}
	update := value.(map[string]any)
	if name, err := orchestrator.CheckName("agent", update["agent"].(string)); err != nil ||
		!strings.EqualFold(name, sender) {
		return "", misfit(kind, "payload.agent", "must be the sender %[2]s, but is %[1]q",
			orchestrator.Clip(update["agent"].(string)), orchestrator.Clip(sender))
	}
	return orchestrator.PresenceStatus(update["status"].(string)), nil
}

// Misspelt returns a remark if a type is not one of document 002 but similar to one, so that its payload was not
// checked. Otherwise it returns "".
func Misspelt(kind string) string {
	near := nearest.Nearest(kind, types)
	if _, known := schemas[kind]; known || len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is not a predefined type, so its payload was not checked. Did you mean %s?",
		orchestrator.Clip(kind), strings.Join(near, " or "))
}

// numbered replaces each json.Number in a value by a float64, because package jsonschema treats json.Number as a
// text. The result is only for checks.
func numbered(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = numbered(v[key])
		}
	case []any:
		for i := range v {
			v[i] = numbered(v[i])
		}
	case json.Number:
		n, _ := strconv.ParseFloat(v.String(), 64)
		return min(max(n, -math.MaxFloat64), math.MaxFloat64)
	}
	return value
}

// locate returns the error for the innermost value that violates its schema. Package jsonschema reports the position
// in the schema, but not in the value.
func locate(kind, path string, s *jsonschema.Schema, value any) error {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range s.Required {
			if _, has := v[key]; !has {
				return misfit(kind, path+"."+key, "the value is missing (%s)", s.Properties[key].Description)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			below := s.Properties[key]
			if member, has := v[key]; has && resolved(below).Validate(member) != nil {
				return locate(kind, path+"."+key, below, member)
			}
		}
	case []any:
		for i := range v {
			if s.Items != nil && resolved(s.Items).Validate(v[i]) != nil {
				return locate(kind, fmt.Sprintf("%s[%d]", path, i), s.Items, v[i])
			}
		}
	}
	return misfit(kind, path, "%s", complaint(s, value))
}

// complaint describes how a value itself violates a schema.
func complaint(s *jsonschema.Schema, value any) string {
	shown := orchestrator.Clip(string(marshal(value)))
	if len(s.Enum) > 0 {
		words := make([]string, len(s.Enum))
		for i, word := range s.Enum {
			words[i] = fmt.Sprintf("%q", word)
		}
		return "must be " + strings.Join(words, " or ") + ", but is " + shown
	}
	if resolved(&jsonschema.Schema{Type: s.Type}).Validate(value) != nil {
		return "must be " + map[string]string{
			"string": "text", "integer": "a whole number", "array": "a list", "object": "an object",
		}[s.Type] + ", but is " + shown
	}
	if s.Minimum != nil {
		return fmt.Sprintf("must be at least %v, but is %s", *s.Minimum, shown)
	}
	return "must not be empty"
}

// misfit returns the error for a fault in the payload of a message of some type, or in its sender or recipient.
func misfit(kind, path, format string, args ...any) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s: %s", path, fmt.Sprintf(format, args...))
	e.Details = map[string]any{"parameter": path}
	return e.WithHint("To see the fields of %s, run `mailroom commands ralph_send`", kind)
}

// routes holds the roles that the sender and the recipient of each type must have; "" means any role. Source:
// document 002, "Message Types".
var routes = map[string]struct{ from, to string }{
	"task_assign":             {"pm", "developer"},
	"implementation_complete": {"developer", "qa"},
	"validation_passed":       {"qa", "pm"},
	"bug_report":              {"qa", "developer"},
	"question":                {"", "pm"},
	"answer":                  {"pm", ""},
	statusUpdate:              {"", "watchdog"},
}

// Party is one end of a route: an agent's name and its role.
type Party struct{ Name, Role string }

// CheckRoute checks that the sender and the recipient of a message have the roles that document 002 requires for its
// type. An agent is the document's pm, developer, qa or watchdog by its name or by its role. Types that the document
// does not have may take any route. Error: invalid_params, with a message that begins with from or to.
func CheckRoute(kind string, from, to Party) error {
	route := routes[kind]
	for _, end := range []struct {
		key, want string
		party     Party
	}{{"from", route.from, from}, {"to", route.to, to}} {
		if end.want == "" || end.party.Name == end.want || strings.EqualFold(end.party.Role, end.want) {
			continue
		}
		e := orchestrator.Errorf(orchestrator.InvalidParams,
			"%s: must be %s (by name or role) for the type %s, but is %s", end.key, end.want, kind, end.party.Name)
		e.Details = map[string]any{"parameter": end.key}
		return e.WithHint("Strict routes are on, because the message sets `strictRoutes` or the setting ralph.strict_routes is on." +
			" To see the names and roles of agents, run `mailroom agent list`")
	}
	return nil
}

// ID returns a message id in the form of document 002: msg-RECIPIENT-yyyyMMdd-HHmmss-SEQUENCE, in UTC, with at least
// three digits in the sequence. It is intended as a Draft's MakeID.
func ID(recipient string, at time.Time, sequence int) string {
	return fmt.Sprintf("msg-%s-%s-%03d", recipient, at.UTC().Format("20060102-150405"), sequence)
}
