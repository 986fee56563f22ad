package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// Whoever holds a row locked by hand holds up its recipient, and nobody else.
func TestLockedRowsHinderNobodyElse(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for name, lock := range map[string]string{
		"a message":              `SELECT FROM agent_message WHERE recipient = 'b' AND status = 'pending' ORDER BY seq DESC LIMIT 1 FOR UPDATE`,
		"one written by hand":    `SELECT FROM agent_message WHERE message_id = 'hand' FOR UPDATE`,
		"all that are to one":    `SELECT FROM agent_message WHERE recipient = 'b' FOR UPDATE`,
		"what is counted of one": `SELECT FROM message_count WHERE recipient = 'b' FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := postgrestest.Place(server)
			e := made(t, address, "a", "b", "c")
			s := postgrestest.Connect(t, address)
			send := func(to string) string {
				t.Helper()
				sent, err := messages.Send(t.Context(), e.Ledger, orchestrator.Draft{Sender: "a", Recipient: to, Type: "note", Payload: []byte("1")})
				if err != nil {
					t.Fatal(err)
				}
				return sent.MessageID
			}
			status := func(want string) {
				t.Helper()
				got := fmt.Sprint(postgrestest.SQL(t.Context(), address, `SELECT string_agg(recipient || ' ' || status, ', ' ORDER BY seq) FROM agent_message`))
				if !strings.Contains(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}
			send("b")
			if _, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil {
				t.Fatal(err)
			}
			first := send("b")
			s.Run(`INSERT INTO agent_message (message_id, sender, recipient) VALUES ('hand', 'a', 'b')`)
			send("b")
			send("c")
			s.Run(`BEGIN; ` + lock)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			for range 2 {
				if _, err := e.DeliverAll(ctx, delivery.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			status("b delivered, b pending, b pending, b pending, c delivered")
			reasons, err := overview.Why(t.Context(), e.Ledger, first)
			if err != nil || !strings.Contains(reasons[0].Rule, "locked by process") {
				t.Errorf("why: %+v, %v", reasons, err)
			}
			s.Run(`COMMIT`)
			if _, err := e.DeliverAll(ctx, delivery.Options{}); err != nil {
				t.Fatal(err)
			}
			status("b delivered, b delivered, b delivered, b delivered, c delivered")
		})
	}
}
