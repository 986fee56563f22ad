package cost_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
)

// The text that a hook shows to an agent's model is counted by sender.
func ExampleOf() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	if _, err := messages.Send(ctx, e.Ledger, orchestrator.Draft{
		Sender: "architect", Recipient: "code_developer", Type: "spec_ready", Payload: []byte(`{"spec_id":"SPEC-031"}`),
	}); err != nil {
		log.Fatal(err)
	}
	answer, err := hosts.Happened(ctx, e.Ledger, hosts.Event{
		Agent: "code_developer", Program: "claude", Session: "62ffc165", Kind: hosts.Prompted,
		Size: func(m *orchestrator.Message) int { return len(m.Payload) },
		Line: func(g *hosts.Group) string { return fmt.Sprintf("%d of %s\n", g.Messages, g.Newest.Sender) },
	})
	if err != nil {
		log.Fatal(err)
	}
	answer.Size = 30 // including the text around the message
	if err := hosts.Written(ctx, e.Ledger, &answer); err != nil {
		log.Fatal(err)
	}

	report, err := cost.Of(ctx, e.Ledger, "code_developer", e.Ledger.Now().Add(-time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range report.Lines {
		fmt.Println(line.Sender, line.Type, line.Way, line.Messages, line.Bytes, line.Tokens)
	}
	// Output: architect spec_ready hook 1 30 7
}
