package overview_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
)

// Status counts the waiting messages of each recipient.
func ExampleStatus() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	if _, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "code_developer", Type: "spec_ready"}); err != nil {
		log.Fatal(err)
	}
	state, err := overview.Status(ctx, e.Ledger)
	if err != nil {
		log.Fatal(err)
	}
	for _, backlog := range state.Recipients {
		if backlog.Pending > 0 {
			fmt.Println(backlog.Recipient, "pending:", backlog.Pending)
		}
	}
	// Output: code_developer pending: 1
}

// Why explains what holds a message, and what would release it.
func ExampleWhy() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	sent, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "code_developer", Type: "spec_ready"})
	if err != nil {
		log.Fatal(err)
	}
	reasons, err := overview.Why(ctx, e.Ledger, sent.MessageID)
	if err != nil {
		log.Fatal(err)
	}
	for _, reason := range reasons {
		fmt.Println(reason.Where)
		fmt.Println(reason.Rule)
		fmt.Println(reason.Fix)
	}
	// Output:
	// in agent_message, undelivered
	// it is due now, and the next delivery run delivers it
	// Run `mailroom deliver_all`, or keep `mailroom serve` running
}

// Trace returns what happened to a message, in order, even after retention has deleted it.
func ExampleTrace() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	sent, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "code_developer", Type: "spec_ready"})
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := reading.Wait(ctx, e.Ledger, reading.Options{Recipient: "code_developer", Limit: 10}); err != nil {
		log.Fatal(err)
	}
	stories, err := overview.Trace(ctx, e.Ledger, sent.MessageID)
	if err != nil {
		log.Fatal(err)
	}
	for _, event := range stories[0].Events {
		fmt.Println(event.Event, event.NewStatus)
	}
	// Output:
	// created pending
	// delivered delivered
	// read delivered
}
