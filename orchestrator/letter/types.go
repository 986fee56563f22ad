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

// types lists the message types of document 002, in its order. Each has a JSON Schema for its payload in
// schemas/TYPE.json.
var types = []string{"task_assign", "implementation_complete", "validation_passed", "bug_report", "question", "answer",
	statusUpdate}

// statusUpdate is the type of messages in which agents report what they do.
const statusUpdate = "status_update"

//go:embed schemas/*.json
var schemaFiles embed.FS

// schemas holds the compiled schema of each type, compiled when it is first needed.
var schemas = func() map[string]func() *jsonschema.Resolved {
	all := map[string]func() *jsonschema.Resolved{}
	for _, kind := range types {
		all[kind] = sync.OnceValue(func() *jsonschema.Resolved { return compile(kind) })
	}
	return all
}()

// compile reads the schema of a type. It panics if the schema is invalid: the schemas are part of the program, and a
// test compiles all of them.
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

// Check checks the payload of a message against the schema of its type in document 002. It also checks that a
// status_update names its sender. Check returns the status in a status_update, and "" for any other message. Types
// that the document does not define pass. Check is safe for concurrent use. Error: invalid_params, whose message
// begins with the path of the fault, such as `payload.bugs[0].line: ...`. The path is also in its details, under
// parameter.
func Check(kind, sender string, payload json.RawMessage) (says orchestrator.PresenceStatus, err error) {
	schema, known := schemas[kind]
	if !known {
		return "", nil
	}
	var value any
	dec := json.NewDecoder(strings.NewReader(string(payload)))
	dec.UseNumber() // a number may be too large for a float64, and keeps its digits
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

// Misspelt returns a warning if a type is not defined by document 002, so that its payload is not checked, but is
// close to one that is. Otherwise it returns "".
func Misspelt(kind string) string {
	near := nearest.Nearest(kind, types)
	if _, known := schemas[kind]; known || len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is not a predefined type, so its payload was not checked. Did you mean %s?",
		orchestrator.Clip(kind), strings.Join(near, " or "))
}

// numbered replaces each json.Number in a value by a float64, because package jsonschema treats a json.Number as
// text. Use the result only for checks.
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

// locate finds the innermost value that violates its schema, because package jsonschema reports the place in the
// schema, but not in the value.
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

// misfit returns the error for a fault in the payload, the sender or the recipient of a message of some type.
func misfit(kind, path, format string, args ...any) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s: %s", path, fmt.Sprintf(format, args...))
	e.Details = map[string]any{"parameter": path}
	return e.WithHint("To see the fields of %s, run `mailroom commands ralph_send`", kind)
}

// routes holds the role that the sender and the recipient of each type must have; "" is any. Source: document 002,
// "Message Types".
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
// type. An agent has one of the document's roles, pm, developer, qa or watchdog, by its name or by its role. Types
// that the document does not define may have any sender and recipient. Error: invalid_params, whose message begins
// with from or to.
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

// ID returns a message id in the format of document 002: msg-RECIPIENT-yyyyMMdd-HHmmss-SEQUENCE, in UTC, where the
// sequence has at least three digits. It fits the field MakeID of a Draft.
func ID(recipient string, at time.Time, sequence int) string {
	return fmt.Sprintf("msg-%s-%s-%03d", recipient, at.UTC().Format("20060102-150405"), sequence)
}
