package removal_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
)

// An agent with unread messages is removed only with Force. The messages fail, and their senders are notified.
func ExampleRemove() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	if _, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "code_developer", Type: "spec_ready"}); err != nil {
		log.Fatal(err)
	}

	_, err := removal.Remove(ctx, e.Ledger, removal.Request{Name: "code_developer"})
	fmt.Println(orchestrator.CodeOf(err))

	failed, err := removal.Remove(ctx, e.Ledger, removal.Request{Name: "code_developer", Force: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("given up:", failed)

	told, _, err := reading.Wait(ctx, e.Ledger, reading.Options{Recipient: "architect", Limit: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range told {
		fmt.Println(m.Sender, m.Type)
	}
	// Output:
	// conflict
	// given up: 1
	// system error_report
}
