package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestTextThatTheEncodingLacks: in a database whose encoding is not UTF-8 a message with a character that it lacks fails alone, and
// says why.
func TestTextThatTheEncodingLacks(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	if _, err := postgrestest.SQL(t.Context(), server, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	e := made(t, strings.Replace(server, "/postgres?", "/latin?", 1), "a", "b")
	var drafts []orchestrator.Draft
	texts := []string{"né", "5 €", "plain", "漢字", "nul \x00", "last"}
	for _, text := range texts {
		drafts = append(drafts, orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Summary: text})
	}
	for range 2 { // the first run has no savepoints
		_, errs := messages.SendBatch(t.Context(), e.Ledger, drafts, false)
		for i, text := range texts {
			switch text {
			case "5 €", "漢字", "nul \x00":
				want.Code(t, errs[i], orchestrator.InvalidParams)
				if said := fmt.Sprint(errs[i]); !strings.Contains(said, "the database refuses it") && !strings.Contains(said, "NUL") || strings.Contains(said, text) {
					t.Errorf("%q: %s", text, said)
				}
			default:
				if errs[i] != nil {
					t.Errorf("%q: %v", text, errs[i])
				}
			}
		}
	}
	n, err := postgrestest.SQL(t.Context(), e.Store.Path(), "SELECT count(*) FROM mailroom.agent_message")
	if err != nil || fmt.Sprint(n) != "[6]" {
		t.Errorf("%v messages, %v", n, err)
	}
	_, err = messages.Send(t.Context(), e.Ledger, drafts[1])
	want.Code(t, err, orchestrator.InvalidParams)
}
