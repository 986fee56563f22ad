package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/surface/cli"
)

// toolsList returns the complete answer to tools/list, as an agent's host gets it.
func toolsList(t *testing.T, vocabulary string) []byte {
	t.Helper()
	o := newOffice(t, "builder")
	var out bytes.Buffer
	p := cli.Standard(config())
	p.Out, p.Err, p.Getenv = &out, io.Discard, func(string) string { return "" }
	p.In = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`)
	if status := p.Run(t.Context(),
		append([]string{"mailroom", "--db", o.db}, mcpWords("builder", vocabulary, false)...)); status != 0 {
		t.Fatalf("exit status %d", status)
	}
	for line := range bytes.Lines(out.Bytes()) {
		if bytes.Contains(line, []byte(`"id":2,`)) {
			return line
		}
	}
	t.Fatalf("no answer in %s", out.Bytes())
	return nil
}

// TestToolsFitInAModel checks that the text that an agent's model reads first is short: each tool is described in one
// sentence, each parameter in a few words, without shell commands and repetitions.
func TestToolsFitInAModel(t *testing.T) {
	t.Parallel()
	for vocabulary, most := range map[string]int{"relay": 10_000, "": 45_000} {
		answer := toolsList(t, vocabulary)
		t.Logf("%q: %d bytes", vocabulary, len(answer))
		if len(answer) > most {
			t.Errorf("tools/list of %q has %d bytes; at most %d", vocabulary, len(answer), most)
		}
		var list struct {
			Result struct {
				Tools []struct {
					Name, Description string
					InputSchema       struct {
						Description string
						Properties  map[string]struct{ Description string }
					}
				}
			}
		}
		if err := json.Unmarshal(answer, &list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Result.Tools {
			names = append(names, tool.Name)
			heldShort(t, tool.Name, strings.TrimSuffix(tool.Description, "."), 120)
			if !strings.HasSuffix(tool.Description, ".") || tool.InputSchema.Description != "" {
				t.Errorf("%s says %q, and %q besides; want one sentence, once", tool.Name, tool.Description,
					tool.InputSchema.Description)
			}
			for name, p := range tool.InputSchema.Properties {
				heldShort(t, tool.Name+"."+name, p.Description, 130)
			}
		}
		for _, d := range config().Catalogue.All() {
			if d.BesideAny && !slices.Contains(names, d.Name) {
				t.Errorf("%q is served without %s, which every agent needs: %q", vocabulary, d.Name, names)
			}
		}
	}
}

// heldShort checks that a description is one sentence for a model.
func heldShort(t *testing.T, what, says string, most int) {
	t.Helper()
	if says == "" || len(says) > most {
		t.Errorf("%s: %q has %d bytes; want 1 to %d", what, says, len(says), most)
	}
	for _, not := range []string{"\n", "`", ". ", "$ ", "mailroom ", " --"} {
		if strings.Contains(says, not) {
			t.Errorf("%s: %q has %q, which is not for models", what, says, not)
		}
	}
}

// TestPropertiesHaveTypes checks that every property of every tool has a type, at all levels. Gemini CLI omits a tool
// with a property that has none, and Gemini rejects all tools if a list has no items, or a type is a list.
func TestPropertiesHaveTypes(t *testing.T) {
	t.Parallel()
	tools := 0
	for _, d := range config().Catalogue.All() {
		output, err := d.ToolResultSchema()
		if err != nil {
			t.Fatal(err)
		}
		for what, schema := range map[string]any{"takes": d.ToolSchema(), "answers": output} {
			text, err := json.Marshal(schema)
			if err != nil {
				t.Fatal(err)
			}
			var read map[string]any
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			heldTyped(t, d.Name+" "+what, read)
		}
		tools++
	}
	if tools < 50 {
		t.Errorf("there are %d tools", tools)
	}
}

// heldTyped checks that a schema, and all schemas below it, have a type, or several to choose from.
func heldTyped(t *testing.T, where string, schema any) {
	t.Helper()
	s, ok := schema.(map[string]any)
	if !ok {
		t.Errorf("%s is %v, and no schema", where, schema)
		return
	}
	choices, _ := s["anyOf"].([]any)
	if _, typed := s["type"].(string); typed == (len(choices) > 0) {
		t.Errorf("%s has the type %v, and %d to choose from", where, s["type"], len(choices))
	}
	for i, choice := range choices {
		heldTyped(t, fmt.Sprintf("%s, choice %d", where, i), choice)
	}
	if s["type"] == "array" && !strings.Contains(where, " answers") || s["items"] != nil {
		heldTyped(t, where+", items", s["items"])
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		heldTyped(t, where+"."+name, p)
	}
}

// TestWholeNumbers checks that each whole-number parameter accepts 5.0 and 5e0 for 5, as in JSON Schema, with the
// same errors.
func TestWholeNumbers(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, d := range config().Catalogue.All() {
		for _, p := range d.Params() {
			if p.Kind != parameter.Integer && p.Kind != parameter.Span {
				continue
			}
			tried++
			check := func(value string) string { return fmt.Sprint(d.Check(withRequired(d, p.Name, value))) }
			for _, n := range []string{"0", "1", "5", "86400", "-1", "9007199254740992"} {
				for _, written := range []string{n + ".0", n + "e0", n + ".00E+0"} {
					if got, want := check(written), check(n); got != want {
						t.Errorf("%s: %s of %s: %s; want %s, as of %s", d.Name, p.Name, written, got, want, n)
					}
				}
			}
			if got := check("1.5"); !strings.Contains(got, "must be a whole number") {
				t.Errorf("%s: %s of 1.5: %s", d.Name, p.Name, got)
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d parameters are whole numbers", tried)
	}
}

// withRequired returns parameters of a command: one with a value, and the required ones.
func withRequired(d *commands.Definition, name, value string) json.RawMessage {
	members := []string{fmt.Sprintf("%q:%s", name, value)}
	for _, p := range d.Params() {
		if !p.Required || p.Name == name {
			continue
		}
		some := map[parameter.Kind]string{parameter.Integer: "1", parameter.Span: "1", parameter.Number: "1",
			parameter.Boolean: "true", parameter.List: `["a"]`, parameter.JSON: "{}"}[p.Kind]
		if some == "" {
			some = `"a"`
		}
		if len(p.OneOf) > 0 {
			some = fmt.Sprintf("%q", p.OneOf[0])
		}
		members = append(members, fmt.Sprintf("%q:%s", p.Name, some))
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}")
}
