package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/router"
)

// printer is a transport that prints the messages it delivers. An agent's address names its printer, as in
// printer:hall.
type printer struct{}

func (printer) Check(address string) (string, error) {
	if address == "" {
		return "", errors.New("name a printer, as in printer:hall")
	}
	return address, nil
}

func (printer) MaxBatch() int { return 10 }

func (printer) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages)) // one per message; nil: the message has arrived
	for i, m := range a.Messages {
		if errs[i] = ctx.Err(); errs[i] == nil {
			fmt.Printf("%s: %s for %s\n", a.Address, m.Type, a.Recipient)
		}
	}
	return errs
}

// A program adds a transport of its own under a scheme, and agents have addresses with that scheme.
func ExampleEngine_DeliverAll() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "mailroom")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	e, err := router.Open(ctx, ledger.Options{
		Path:       filepath.Join(folder, "mailroom.db"),
		Transports: map[string]orchestrator.Transport{"printer": printer{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	deliver := "printer:hall"
	if _, _, err := agents.Add(ctx, e.Ledger, agents.Update{Name: "clerk", Deliver: &deliver}); err != nil {
		log.Fatal(err)
	}
	if _, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "clerk", Recipient: "clerk", Type: "invoice"}); err != nil {
		log.Fatal(err)
	}

	run, err := e.DeliverAll(ctx, delivery.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("delivered:", run.Delivered)
	for _, failed := range run.Errors {
		fmt.Println(failed.Recipient, failed.Code, failed.Message, "again at", failed.RetryAt)
	}
	// Output:
	// hall: invoice for clerk
	// delivered: 1
}
