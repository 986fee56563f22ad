package person_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/person"
)

// A question is asked only if a phone can show it. No phone is paired here, so the agent sends an alert instead,
// which is kept for the first phone. Once there is a phone, person.Read waits for the answer to a question.
func ExampleAsk() {
	ctx := context.Background()
	e, done := example.Open("architect")
	defer done()

	asked, err := person.Ask(ctx, e.Ledger, person.Question{
		Asker: "architect", Question: "May I deploy?", Options: []string{"yes", "no"}, Encrypted: true,
	})
	switch orchestrator.CodeOf(err) {
	case orchestrator.Unavailable:
		fmt.Println("no phone can show it")
	default:
		fmt.Println("asked:", asked.ID, err)
	}

	told, err := person.Tell(ctx, e.Ledger,
		person.Alert{Sender: "architect", Message: "The release is ready", Encrypted: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("an alert is kept, and can be read by", told.Devices, "phones now")
	// Output:
	// no phone can show it
	// an alert is kept, and can be read by 0 phones now
}
