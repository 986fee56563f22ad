package reading_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/reading"
)

// A reader takes messages under a lease, and acknowledges each message when it has processed it. A message that the
// reader does not acknowledge in time, for instance because it crashed, is unread again, and the next reader gets it.
func ExampleWait() {
	ctx := context.Background()
	e, done := example.Open("architect", "code_developer")
	defer done()

	for _, spec := range []string{"SPEC-031", "SPEC-032"} {
		if _, err := messages.Send(ctx, e.Ledger, orchestrator.Draft{
			Sender: "architect", Recipient: "code_developer", Type: "spec_ready",
			Payload: fmt.Appendf(nil, `{"spec_id":%q}`, spec),
		}); err != nil {
			log.Fatal(err)
		}
	}

	got, more, err := reading.Wait(ctx, e.Ledger, reading.Options{
		Recipient: "code_developer",
		Timeout:   time.Minute, // 0: return immediately, without waiting
		Limit:     10,
		Lease:     messages.ReadingLease{For: 5 * time.Minute, Holder: "builder"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("more:", more)
	for _, m := range got {
		fmt.Println(m.Type, string(m.Payload))
		if _, err := messages.Acknowledge(ctx, e.Ledger, m.ID, "code_developer"); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// more: false
	// spec_ready {"spec_id":"SPEC-031"}
	// spec_ready {"spec_id":"SPEC-032"}
}

// A program that must not block, or that serves several agents, listens first and then looks.
func ExampleArrivals() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, done := example.Open("architect", "code_developer")
	defer done()

	news, stop, err := reading.Arrivals(ctx, e.Ledger, "code_developer")
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	if _, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "code_developer", Type: "spec_ready"}); err != nil {
		log.Fatal(err)
	}
	select {
	case <-news:
	case <-ctx.Done():
		log.Fatal(ctx.Err())
	}
	got, _, err := reading.Wait(ctx, e.Ledger, reading.Options{Recipient: "code_developer", Limit: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(got), "new")
	// Output: 1 new
}
