package messages_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
)

// A sender that cannot tell whether its message was stored sends it again with the same idempotency key. It gets the
// first answer again, and the message is stored once.
func ExampleSend() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	draft := orchestrator.Draft{
		Sender:         "architect",
		Recipient:      "code_developer",
		Type:           "spec_ready",
		Payload:        []byte(`{"spec_id":"SPEC-031"}`),
		IdempotencyKey: "spec_ready SPEC-031",
	}
	first, err := messages.Send(ctx, e.Ledger, draft)
	if err != nil {
		log.Fatal(err)
	}
	again, err := messages.Send(ctx, e.Ledger, draft)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same message:", again.MessageID == first.MessageID)
	fmt.Println("sent now:", !first.Idempotent, !again.Idempotent)
	// Output:
	// the same message: true
	// sent now: true false
}

// Programs compare the code of an error, not its text. errors.As finds the error itself, whose hint names the next
// step.
func ExampleSend_refused() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	_, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "code_develper", Type: "spec_ready"})
	switch orchestrator.CodeOf(err) {
	case orchestrator.UnknownRecipient:
		fmt.Println("nobody has that name")
	case orchestrator.Busy, orchestrator.Unavailable:
		fmt.Println("try again later")
	}
	var refused *orchestrator.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Message)
		fmt.Println(strings.HasPrefix(refused.Hint, "Did you mean code_developer?"))
	}
	// Output:
	// nobody has that name
	// unknown recipient "code_develper"
	// true
}

// Several messages share one transaction. With atomic, either all of them are sent or none.
func ExampleSendBatch() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	outcomes := messages.SendBatch(ctx, e.Ledger, []orchestrator.Draft{
		{Sender: "architect", Recipient: "code_developer", Type: "spec_ready"},
		{Sender: "architect", Recipient: "nobody", Type: "spec_ready"},
	}, false)
	for _, out := range outcomes {
		if out.Refused != nil {
			fmt.Println("refused:", orchestrator.CodeOf(out.Refused))
			continue
		}
		fmt.Println("sent to", out.Sent.Recipients)
	}
	// Output:
	// sent to [code_developer]
	// refused: unknown_recipient
}
