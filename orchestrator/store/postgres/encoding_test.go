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

// TestOtherEncodings checks that no tables are created in a database whose encoding lacks characters.
func TestOtherEncodings(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		if _, err := postgrestest.SQL(t.Context(), server, "CREATE DATABASE "+encoding+" ENCODING '"+encoding+
			"' LOCALE 'C' TEMPLATE template0"); err != nil {
			t.Fatal(err)
		}
		there := strings.Replace(server, "/postgres?", "/"+strings.ToLower(encoding)+"?", 1)
		_, err := at(t, there).Create()
		want.Code(t, err, orchestrator.Unavailable)
		if !strings.Contains(fmt.Sprint(err), "must be UTF8, but is "+encoding) ||
			!strings.Contains(fmt.Sprint(err), "ENCODING 'UTF8'") {
			t.Error(err)
		}
		if schemas, err := postgrestest.SQL(t.Context(), there,
			"SELECT count(*) FROM pg_namespace WHERE nspname = 'mailroom'"); err != nil || schemas[0] != "0" {
			t.Errorf("%s: schemas %v, %v", encoding, schemas, err)
		}
	}
}

// TestTextThatTheEncodingLacks checks that, if such a database has tables nevertheless, a message with a character
// that the encoding lacks fails alone and with the reason. The doctor reports the encoding.
func TestTextThatTheEncodingLacks(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	ann, admin := user(t, server, "ann")
	made(t, ann, "a", "b").Close()
	if _, err := postgrestest.SQL(t.Context(), admin,
		"UPDATE pg_database SET encoding = pg_char_to_encoding('LATIN1') WHERE datname = 'ann'"); err != nil {
		t.Fatal(err)
	}
	finds(t, ann, "server: problem the encoding LATIN1", "settings: problem fsync is off")
	e := engine(t, ann)
	var drafts []orchestrator.Draft
	texts := []string{"né", "5 €", "plain", "漢字", "nul \x00", "last"}
	for _, text := range texts {
		drafts = append(drafts, orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Summary: text})
	}
	for range 2 { // the first run has no savepoints
		outs := messages.SendBatch(t.Context(), e.Ledger, drafts, false)
		for i, text := range texts {
			switch text {
			case "5 €", "漢字", "nul \x00":
				want.Code(t, outs[i].Refused, orchestrator.InvalidParams)
				if said := fmt.Sprint(outs[i].Refused); !strings.Contains(said, "the database rejected the row") &&
					!strings.Contains(said, "NUL") || strings.Contains(said, text) {
					t.Errorf("%q: %s", text, said)
				}
			default:
				if outs[i].Refused != nil {
					t.Errorf("%q: %v", text, outs[i].Refused)
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
