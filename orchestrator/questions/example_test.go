package questions_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/questions"
)

// An agent asks the user, and waits for the answer from a phone. Nobody answers here, so the agent cancels the
// question.
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

// Wait returns as soon as somebody answers; List returns the open questions. Bodies and answers are JSON here;
// package person encrypts both.
func ExampleWait() {
	ctx := context.Background()
	e, done := example.Open("architect")
	defer done()

	id, err := questions.NewSignalID(e.Ledger, "q-")
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := questions.Ask(ctx, e.Ledger, questions.Draft{
		ID: id, Asker: "architect", Body: `{"question":"May I deploy?","options":["yes","no"]}`, TTL: time.Hour,
	}); err != nil {
		log.Fatal(err)
	}
	open, err := questions.List(ctx, e.Ledger, questions.Filter{Asker: "architect", Status: questions.Pending})
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range open {
		fmt.Println("open:", q.Body)
	}

	phone := pairedPhone(ctx, e)
	answered := make(chan error)
	go func() { // the user's input on that phone
		_, err := questions.Answer(ctx, e.Ledger, id, phone, `{"option":0}`)
		answered <- err
	}()
	q, err := questions.Wait(ctx, e.Ledger, id, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	if err := <-answered; err != nil {
		log.Fatal(err)
	}
	fmt.Println(q.Status, q.Answer)
	// Output:
	// open: {"question":"May I deploy?","options":["yes","no"]}
	// answered {"option":0}
}

// pairedPhone returns the ID of a device that the user has paired and approved.
func pairedPhone(ctx context.Context, e *delivery.Engine) string {
	code, _, err := questions.StartPairing(ctx, e.Ledger)
	if err != nil {
		log.Fatal(err)
	}
	phone, _, err := questions.Pair(ctx, e.Ledger,
		questions.PairRequest{Code: code, Name: "phone", Recipient: "age1phone"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := questions.ActivateDevice(ctx, e.Ledger, phone.ID, phone.Recipient); err != nil {
		log.Fatal(err)
	}
	return phone.ID
}
