package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// TestReadOnlyTools checks that a tool that is declared as only reading writes nothing but traces. The program runs
// under the guard on tables, which rejects all other writes (guardTables).
func TestReadOnlyTools(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "boss")
	c := newClient(t, overStdio(o)("boss", "", true))
	var offered, reading []string
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		offered = append(offered, tool.Name)
		if tool.Annotations.ReadOnlyHint {
			reading = append(reading, tool.Name)
		}
	}
	for _, name := range []string{"group_set", "setting_set", "clear_traces", "send", "wait"} {
		if slices.Contains(reading, name) {
			t.Errorf("%s says that it only reads", name)
		}
	}
	for _, name := range []string{"poll", "trace", "why", "status", "sql", "list_groups", "get_sent_messages",
		"signal_list"} {
		if !slices.Contains(reading, name) {
			t.Errorf("%s does not say that it only reads", name)
		}
	}
	callAll(t, o, offered, func(tool string, args []string) (map[string]any, string) {
		answer, text, _ := c.call(t, tool, toolParams(t, args))
		result, _ := answer.(map[string]any)
		return result, text
	})
}

// toolParams converts arguments in the form of the protocol's inspector to JSON.
func toolParams(t *testing.T, args []string) string {
	t.Helper()
	object := map[string]any{}
	for _, arg := range args {
		key, text, _ := strings.Cut(arg, "=")
		object[key] = text
		if json.Valid([]byte(text)) {
			object[key] = json.RawMessage(text)
		}
	}
	params, err := orchestrator.JSON(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(params)
}
