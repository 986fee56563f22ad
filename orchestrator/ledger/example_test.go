package ledger_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
)

// A server that has verified the identity of its caller passes the identity on. An unknown agent is added when it
// first acts.
func ExampleWithIdentity() {
	ctx := context.Background()
	e, done := example.Open("architect")
	defer done()

	draft := orchestrator.Draft{Sender: "newcomer", Recipient: "architect", Type: "hello"}
	_, err := messages.Send(ctx, e.Ledger, draft)
	fmt.Println(orchestrator.CodeOf(err))

	sent, err := messages.Send(ledger.WithIdentity(ctx, "newcomer"), e.Ledger, draft)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Recipients)
	// Output:
	// unknown_sender
	// [architect]
}
