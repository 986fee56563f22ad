package letter_test

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/letter"
)

// wantFault fails unless err is invalid_params with a path.
func wantFault(t *testing.T, what string, err error, path string) {
	t.Helper()
	var e *orchestrator.Error
	if !errors.As(err, &e) || e.Code != orchestrator.InvalidParams || !strings.HasPrefix(e.Message, path+": ") ||
		e.Details["parameter"] != path {
		t.Errorf("%s: %v; want a fault at %s", what, err, path)
	}
}

// TestCheckTakesTheDocumentsPayloads checks that the document's payloads pass, also with additional keys, and that
// Check returns the sender's status.
func TestCheckTakesTheDocumentsPayloads(t *testing.T) {
	t.Parallel()
	var kinds []string
	for _, e := range examples {
		kinds = append(kinds, e.kind)
		var says orchestrator.PresenceStatus
		if e.kind == "status_update" {
			says = orchestrator.Working
		}
		more := strings.Replace(e.payload, "{", `{"huge":[1e400,-1e400,{"n":null}],`, 1)
		for _, payload := range []string{e.payload, more} {
			if got, err := letter.Check(e.kind, e.from, json.RawMessage(payload)); err != nil || got != says {
				t.Errorf("%s: %q, %v", payload, got, err)
			}
		}
	}
	files, err := filepath.Glob("schemas/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for _, file := range files {
		described = append(described, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	if slices.Sort(kinds); !slices.Equal(kinds, described) {
		t.Errorf("there are schemas of %q; the document has %q", described, kinds)
	}
	for _, payload := range []string{`{}`, `null`, `[1]`, `"text"`} {
		if got, err := letter.Check("a_word_of_our_own", "pm", json.RawMessage(payload)); err != nil || got != "" {
			t.Errorf("an unknown type with %s: %q, %v", payload, got, err)
		}
	}
	if got, err := letter.Check("status_update", "qa", json.RawMessage(`{"agent":"QA","status":"idle"}`)); err != nil ||
		got != orchestrator.Idle {
		t.Errorf("idle without a task: %q, %v", got, err)
	}
}

// paths adds each path in an example's payload, with the value there.
func paths(at string, value any, into map[string]any) {
	into[at] = value
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			paths(at+"."+key, v[key], into)
		}
	case []any:
		for i := range v {
			paths(at+"["+string(rune('0'+i))+"]", v[i], into)
		}
	}
}

// changed returns a payload in which the value at a path is removed or replaced.
func changed(t *testing.T, payload, path string, replacement any, remove bool) json.RawMessage {
	t.Helper()
	var change func(at string, value any) any
	change = func(at string, value any) any {
		if at == path {
			return replacement
		}
		switch v := value.(type) {
		case map[string]any:
			for key := range v {
				if remove && at+"."+key == path {
					delete(v, key)
				} else {
					v[key] = change(at+"."+key, v[key])
				}
			}
		case []any:
			for i := range v {
				v[i] = change(at+"["+string(rune('0'+i))+"]", v[i])
			}
		}
		return value
	}
	var value any
	if err := json.Unmarshal([]byte(payload), &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(change("payload", value))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestCheckNamesThePathOfEveryFault checks that a payload of the document in which a value is removed or has another
// type is refused with the value's path.
func TestCheckNamesThePathOfEveryFault(t *testing.T) {
	t.Parallel()
	free := []string{"payload.acceptanceCriteria[0]", "payload.acceptanceCriteria[1]"} // the document leaves their type open
	optional := []string{"payload.taskId of status_update"}
	for _, e := range examples {
		var value any
		if err := json.Unmarshal([]byte(e.payload), &value); err != nil {
			t.Fatal(err)
		}
		all := map[string]any{}
		paths("payload", value, all)
		for _, path := range slices.Sorted(maps.Keys(all)) {
			if slices.Contains(free, path) {
				continue
			}
			wrong := []any{nil, true, 1.5, -1}
			if _, is := all[path].(string); !is {
				wrong = append(wrong, "text")
			}
			if _, is := all[path].(map[string]any); !is {
				wrong = append(wrong, map[string]any{})
			}
			if _, is := all[path].([]any); !is {
				wrong = append(wrong, []any{})
			}
			for _, other := range wrong {
				text := changed(t, e.payload, path, other, false)
				_, err := letter.Check(e.kind, e.from, text)
				wantFault(t, string(text), err, path)
			}
			if !strings.HasSuffix(path, "]") && path != "payload" && !slices.Contains(optional, path+" of "+e.kind) {
				text := changed(t, e.payload, path, nil, true)
				_, err := letter.Check(e.kind, e.from, text)
				wantFault(t, string(text), err, path)
			}
		}
	}
}

// TestCheckSaysWhatIsWrong checks the rules of a schema other than types, and the messages of all faults.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, payload, want string }{
		{"bug_report", `{"taskId":"feat-001","bugs":[]}`, `payload.bugs: must not be empty`},
		{"bug_report", `{"taskId":"feat-001","bugs":[{"file":"f","line":1,"issue":"i"},{"file":"f","line":"ten","issue":"i"}]}`,
			`payload.bugs[1].line: must be a whole number, but is "ten"`},
		{"bug_report", `{"taskId":"feat-001","bugs":[{"file":"f","line":-3,"issue":"i"}]}`,
			`payload.bugs[0].line: must be at least 0, but is -3`},
		{"bug_report", `{"taskId":"feat-001","bugs":[{"file":"f","line":1}]}`,
			`payload.bugs[0].issue: the value is missing (description of the fault)`},
		{"bug_report", `{"taskId":"feat-001","bugs":[7]}`, `payload.bugs[0]: must be an object, but is 7`},
		{"bug_report", `{"taskId":"","bugs":[]}`, `payload.bugs: must not be empty`},
		{"bug_report", `[]`, `payload: must be an object, but is []`},
		{"question", `{"taskId":"","question":"?"}`, `payload.taskId: must not be empty`},
		{"question", `{"taskId":"feat-001","question":["` + strings.Repeat("long", 50) + `"]}`,
			`payload.question: must be text, but is ["longlong`},
		{"validation_passed",
			`{"taskId":"feat-001","results":{"typecheck":"pass","lint":"fail","test":"pass","build":"pass"}}`,
			`payload.results.lint: must be "pass", but is "fail"`},
		{"status_update", `{"agent":"developer","status":"busy"}`, `payload.status: must be "working" or "idle", but is "busy"`},
		{"status_update", `{"agent":"pm","status":"idle"}`,
			`payload.agent: must be the sender developer, but is "pm"`},
		{"status_update", `{"agent":"\u212aim","status":"idle"}`, "payload.agent: must be the sender"},
		{"status_update", `{"agent"`, `payload: not valid JSON`},
	} {
		_, err := letter.Check(c.kind, "developer", json.RawMessage(c.payload))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || len(err.Error()) > 300 {
			t.Errorf("%s %s: %v; want %s", c.kind, c.payload, err, c.want)
		}
	}
}

func TestCheckRoute(t *testing.T) {
	t.Parallel()
	agent := func(name, role string) letter.Party { return letter.Party{Name: name, Role: role} }
	pm, developer, qa, watchdog := agent("pm", ""), agent("developer", ""), agent("qa", ""), agent("watchdog", "")
	ada := agent("ada", "QA")
	for _, c := range []struct {
		kind     string
		from, to letter.Party
		fault    string
	}{
		{"task_assign", pm, developer, ""}, {"task_assign", developer, developer, "from"},
		{"task_assign", pm, qa, "to"},
		{"implementation_complete", developer, qa, ""}, {"implementation_complete", developer, ada, ""},
		{"implementation_complete", qa, pm, "from"},
		{"validation_passed", qa, pm, ""}, {"validation_passed", ada, pm, ""},
		{"validation_passed", qa, developer, "to"},
		{"bug_report", ada, developer, ""}, {"bug_report", pm, developer, "from"},
		{"question", watchdog, pm, ""}, {"question", pm, developer, "to"},
		{"answer", pm, ada, ""}, {"answer", ada, pm, "from"},
		{"status_update", ada, watchdog, ""}, {"status_update", ada, pm, "to"},
		{"anything", qa, qa, ""},
	} {
		err := letter.CheckRoute(c.kind, c.from, c.to)
		if c.fault == "" && err != nil {
			t.Errorf("%s from %s to %s: %v", c.kind, c.from.Name, c.to.Name, err)
		}
		if c.fault != "" {
			wantFault(t, c.kind, err, c.fault)
		}
	}
}

func TestID(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 23, 13, 0, 5, 0, time.FixedZone("", 3600))
	for n, want := range map[int]string{1: "msg-qa-20250123-120005-001", 999: "msg-qa-20250123-120005-999",
		1000: "msg-qa-20250123-120005-1000"} {
		if got := letter.ID("qa", at, n); got != want {
			t.Errorf("%d: %s; want %s", n, got, want)
		}
	}
}

// FuzzCheck checks, for any payload, that a refusal names a place in the payload in a short line, and that an
// accepted payload is also accepted with an additional unknown key.
func FuzzCheck(f *testing.F) {
	for i, e := range examples {
		f.Add(uint8(i), e.payload)
		f.Add(uint8(i), strings.Replace(e.payload, `"`, `"x`, 1))
		f.Add(uint8(i), strings.ReplaceAll(e.payload, `"feat-001"`, `{"a":[1e400,null]}`))
	}
	f.Fuzz(func(t *testing.T, i uint8, payload string) {
		e := examples[int(i)%len(examples)]
		_, err := letter.Check(e.kind, e.from, json.RawMessage(payload))
		if err == nil {
			more := `{"nobody knows":-1e999,` + strings.TrimLeft(payload, " \t\r\n{")
			if _, err := letter.Check(e.kind, e.from, json.RawMessage(more)); err != nil &&
				json.Valid([]byte(payload)) {
				t.Errorf("%s: %v", more, err)
			}
			return
		}
		var refused *orchestrator.Error
		if !errors.As(err, &refused) || refused.Code != orchestrator.InvalidParams ||
			!strings.HasPrefix(refused.Message, "payload") || len(refused.Message) > 500 {
			t.Errorf("%s: %v", payload, err)
		}
	})
}
