package postgres_test

import (
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// A program that has locked a row by hand is named in the explanation why a message waits, even if it locked the row
// through a view.
func TestLockedRowsAreExplained(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for name, lock := range map[string]string{
		"a message":                `SELECT FROM agent_message WHERE recipient = 'b' FOR UPDATE`,
		"by the view of its inbox": `INSERT INTO b_inbox (message_id, payload) VALUES ('hand', '1')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := postgrestest.Place(server)
			e := made(t, address, "a", "b")
			sent, err := messages.Send(t.Context(), e.Ledger,
				orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Payload: []byte("1")})
			if err != nil {
				t.Fatal(err)
			}
			postgrestest.Connect(t, address).Run(`BEGIN; ` + lock)
			for { // named once the lock has been held longer than usual
				reasons, err := overview.Why(t.Context(), e.Ledger, sent.MessageID)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(reasons[0].Rule, "locked by process") {
					break
				}
			}
			findings := overview.Doctor(t.Context(), e.Ledger, overview.DoctorOptions{})
			named := false
			for _, f := range findings {
				named = named || f.Code == "row locks" && f.Level == "problem" && strings.Contains(f.Do,
					"pg_terminate_backend")
			}
			if !named {
				t.Errorf("doctor: %+v", findings)
			}
		})
	}
}
