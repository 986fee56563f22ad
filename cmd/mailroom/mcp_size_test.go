package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"mailroom/commands/surface/cli"
)

// toolsList is the whole answer to tools/list, as an agent's host gets it.
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
	if status := p.Run(t.Context(), append([]string{"mailroom", "--db", o.db}, mcpWords("builder", vocabulary, false)...)); status != 0 {
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

// TestToolsFitInAModel: what an agent's model reads before it does anything is short: each tool says in one sentence what it
// is for, each parameter in a few words what it is, and no shell and nothing twice.
func TestToolsFitInAModel(t *testing.T) {
	t.Parallel()
	for vocabulary, most := range map[string]int{"relay": 6_000, "": 45_000} {
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
				t.Errorf("%s says %q, and %q besides; want one sentence, once", tool.Name, tool.Description, tool.InputSchema.Description)
			}
			for name, p := range tool.InputSchema.Properties {
				heldShort(t, tool.Name+"."+name, p.Description, 130)
			}
		}
		for _, d := range config().Catalogue.All() {
			if d.BesideAny && !slices.Contains(names, d.Name) {
				t.Errorf("%q is served without %s, which every reader needs: %q", vocabulary, d.Name, names)
			}
		}
	}
}

// heldShort holds a description to one sentence for a model.
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
