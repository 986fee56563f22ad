package admin

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/admin/inspection"
	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
)

// A process holds at most four query answers in memory at a time, each from the start of its query until the answer
// was written or could not be written.
func TestQueriesAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, nil)
	d, err := f.catalogue.Lookup("sql")
	if err != nil {
		t.Fatal(err)
	}
	env := commands.Env{Engine: f.router, Caller: commands.Caller{Admin: true}, Log: slog.New(slog.DiscardHandler),
		Catalogue: f.catalogue}
	ask := func(query string) (commands.Answer, error) {
		return d.Run(t.Context(), env, json.RawMessage(`{"query":"`+query+`"}`))
	}
	var open []commands.Answer
	for range 4 {
		if _, err := ask("SELEC 1"); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			// A refused query occupies no slot.
			t.Fatal(err)
		}
		answer, err := ask("SELECT 1 AS n")
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, answer)
	}
	_, err = ask("SELECT 1")
	want.Code(t, err, orchestrator.Busy)
	for i, answer := range open {
		for range 2 { // a surface may try again
			if err := answer.Settle(t.Context(), env, i%2 == 0); err != nil {
				t.Fatal(err)
			}
		}
		if open[i], err = ask("SELECT 1"); err != nil {
			t.Errorf("once one has ended: %v", err)
		}
		_, err = ask("SELECT 1")
		want.Code(t, err, orchestrator.Busy)
	}
}

// The pieces of an answer together are its JSON.
func TestPiecesOfAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, nil)
	for _, params := range []string{
		`{"query":"SELECT 1 AS \"\"\"rows\"\":[]\", 2 AS rows"}`, `{"list":true}`, `{"query":"SELECT 1 WHERE 1 = 0"}`,
		`{"query":"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i, '` +
			strings.Repeat("x", 1000) + `' AS x FROM n","limit":2900}`,
	} {
		answer, err := f.try(f.router, "sql", params)
		if err != nil {
			t.Fatal(params, err)
		}
		pieces, err := answer.Pieces()
		whole, merr := orchestrator.JSON(answer)
		if err != nil || merr != nil {
			t.Fatal(err, merr)
		}
		joined := ""
		for _, piece := range pieces {
			joined += string(piece)
		}
		if joined != string(whole) {
			t.Errorf("%s:\n%.200s\nand not\n%.200s", params, joined, whole)
		}
	}
}

// The longest messages that can be sent are within the bounds of wide queries, and of all named queries.
func TestQueriesOfTheLongestMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, nil)
	f.try(f.router, "agent_add", `{"name":"a"}`)
	long := `"` + strings.Repeat("x", 1<<20-2) + `"`
	for range 3 {
		f.send("a", "a", "note", `,"payload":`+long)
	}
	ask[any](f, "deliver_all", `{}`)
	queries := []string{
		"SELECT * FROM agent_message ORDER BY created_at, payload",
		"SELECT m.*, t.* FROM agent_message m JOIN message_trace t USING (message_id)",
		"SELECT * FROM agent_message m JOIN agent_inbox i ON i.message_id = m.message_id",
		"SELECT recipient, max(payload), min(payload), count(DISTINCT payload) FROM agent_message GROUP BY recipient",
	}
	for _, query := range queries {
		if r := ask[inspection.SQLResult](f, "sql", `{"query":"`+query+`"}`); len(r.Rows.Values()) == 0 || r.Truncated {
			t.Errorf("%s: %d rows, truncated %t", query, len(r.Rows.Values()), r.Truncated)
		}
	}
	for _, audit := range inspection.Audits() {
		ask[inspection.SQLResult](f, "sql", `{"named":"`+audit.Name+`"}`)
	}
}
