package hosts_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
)

// A hook of an agent host shows new messages after a tool call of the model. The end of the turn proves that the
// model has them.
func ExampleHappened() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	if _, err := messages.Send(ctx, e.Ledger, orchestrator.Draft{
		Sender: "architect", Recipient: "code_developer", Type: "spec_ready", Payload: []byte(`{"spec_id":"SPEC-031"}`),
	}); err != nil {
		log.Fatal(err)
	}

	for _, kind := range []hosts.Kind{hosts.Prompted, hosts.Worked, hosts.Stopped} {
		answer, err := hosts.Happened(ctx, e.Ledger, hosts.Event{
			Agent: "code_developer", Program: "claude", Session: "62ffc165", Kind: kind,
		})
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range answer.Messages {
			fmt.Println(kind, m.Type, string(m.Payload))
		}
	}
	// Output: prompted spec_ready {"spec_id":"SPEC-031"}
}
