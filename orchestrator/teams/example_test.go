package teams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/teams"
)

// The lead of a team asks a teammate to shut down, and the teammate approves.
func ExampleAsk() {
	ctx := context.Background()
	e, done := example.Open("lead", "tester")
	defer done()

	asked, err := teams.Ask(ctx, e.Ledger, teams.Request{
		Kind: orchestrator.Shutdown,
		Draft: orchestrator.Draft{SessionID: orchestrator.DefaultSession, Sender: "lead", Recipient: "tester",
			Type: orchestrator.ShutdownRequest},
		Payload: func(id string) (json.RawMessage, error) {
			return orchestrator.JSON(map[string]string{"request_id": id, "reason": "all tests pass"})
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	if _, err := teams.Answer(ctx, e.Ledger, teams.Reply{
		Kind: orchestrator.Shutdown, RequestID: asked.RequestID, Approve: true,
		Draft: orchestrator.Draft{SessionID: orchestrator.DefaultSession, Sender: "tester", Recipient: "lead",
			Type: orchestrator.ShutdownResponse},
	}); err != nil {
		log.Fatal(err)
	}

	members, err := teams.Get(ctx, e.Ledger, orchestrator.DefaultSession)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range members {
		if !m.BuiltIn {
			fmt.Println(m.Name, m.Status)
		}
	}
	// Output:
	// lead working
	// tester stopped
}
