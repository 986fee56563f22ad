package questions_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/questions"
)

// An agent asks the user, and waits for the answer, which a phone gives. Here nobody answers, so the agent takes it back.
func ExampleAsk() {
	ctx := context.Background()
	e, done := example.Open("architect")
	defer done()

	id, err := questions.NewSignalID(e.Ledger, "q-")
	if err != nil {
		log.Fatal(err)
	}
	asked, pushed, err := questions.Ask(ctx, e.Ledger, questions.Draft{
		ID: id, Asker: "architect", Body: `{"question":"May I deploy?","options":["yes","no"]}`, TTL: time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(asked.Status, "shown by", pushed, "devices")

	taken, err := questions.Cancel(ctx, e.Ledger, id, "architect")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(taken.Status)
	// Output:
	// pending shown by 0 devices
	// cancelled
}
