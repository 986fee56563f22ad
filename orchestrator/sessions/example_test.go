package sessions_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/sessions"
)

// Look returns the sessions that are to be started. A session with a start command is to be started when its agent
// has messages.
func ExampleSessions_Look() {
	ctx := context.Background()
	e, done := example.Open("architect")
	defer done()

	command := "true"
	if _, _, err := agents.Add(ctx, e.Ledger, agents.Update{Name: "builder", StartCommand: &command}); err != nil {
		log.Fatal(err)
	}
	look := sessions.New(e.Ledger)
	report := func() {
		list, err := look.Look(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, s := range list {
			fmt.Printf("%s: wanted %t, running %t\n", s.Agent, s.Wanted, s.Running)
		}
	}

	report()
	if _, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "builder", Type: "spec_ready"}); err != nil {
		log.Fatal(err)
	}
	if _, err := e.DeliverAll(ctx, delivery.Options{}); err != nil {
		log.Fatal(err)
	}
	report()
	// Output:
	// builder: wanted false, running false
	// builder: wanted true, running false
}
