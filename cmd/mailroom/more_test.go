package main

import (
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
)

// The answer of every vocabulary shows whether it was cut because of its size: to programs, to people and in coral's
// XML.
func TestEveryVocabularySaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1_000_000) // four fit into one answer
	for command, c := range map[string]struct{ params, key string }{
		"wait":                    {`{"timeout":0}`, "more"},
		"get_messages":            {`{}`, "hasMore"},
		"coral_wait_for_mentions": {`{"timeoutMs":0}`, "more"},
		"team_messages":           {`{}`, "more"},
		"ralph_inbox":             {`{}`, "has_more"},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			m := newMatrix(t)
			for range 6 {
				m.run("writer", "default", "SendMessage", `{"to":"reader","message":%q}`, text)
			}
			answer := m.run("reader", "default", command, "%s", c.params)
			if m.value(answer, "count") != "4" || m.value(answer, c.key) != "true" {
				t.Errorf("count %s, %s %s; want 4, true", m.value(answer, "count"), c.key, m.value(answer, c.key))
			}
			var people strings.Builder
			answer.Result.(commands.Texter).Text(&terminal.Text{Out: &people})
			if !strings.Contains(people.String(), "There are more") {
				t.Errorf("people do not read that there are more")
			}
			if tool, ok := answer.Result.(interface{ ToolText() string }); ok &&
				!strings.HasPrefix(tool.ToolText(), `<messages more="true">`) {
				t.Errorf("the XML begins with %.40s", tool.ToolText())
			}
			answer = m.run("reader", "default", command, "%s", c.params)
			body, err := orchestrator.JSON(answer)
			if err != nil || m.value(answer, "count") != "2" || strings.Contains(string(body), `"`+c.key+`":true`) {
				t.Errorf("the rest: count %s, more of it: %v", m.value(answer, "count"), err)
			}
		})
	}
}
