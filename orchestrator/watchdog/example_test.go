package watchdog_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/watchdog"
)

// The watchdog starts a program for the agent builder when there are messages for it. The program gets the agent's
// name in its environment, and would normally read its messages with `mailroom wait`. In this example builder gets
// them as lines of a file.
func ExampleRun() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, done := example.Open("architect")
	defer done()

	deliver := "jsonl:" + filepath.Join(filepath.Dir(e.Ledger.Path()), "builder.jsonl")
	command := `echo "$MAILROOM_AGENT starts, since $MAILROOM_UNREAD message came"`
	if _, _, err := agents.Add(ctx, e.Ledger,
		agents.Update{Name: "builder", Deliver: &deliver, StartCommand: &command}); err != nil {
		log.Fatal(err)
	}
	if _, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "architect", Recipient: "builder", Type: "spec_ready"}); err != nil {
		log.Fatal(err)
	}
	if _, err := e.DeliverAll(ctx, delivery.Options{}); err != nil {
		log.Fatal(err)
	}

	watching, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- watchdog.Run(watching, e.Ledger, slog.New(slog.DiscardHandler)) }()

	look := sessions.New(e.Ledger)
	for over := false; !over; {
		select {
		case <-ctx.Done():
			log.Fatal(ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
		list, err := look.Look(ctx)
		if err != nil {
			log.Fatal(err)
		}
		over = len(list) == 1 && list[0].StartedAt != "" && !list[0].Running
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	said, err := os.ReadFile(sessions.Output(e.Ledger, "builder"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(said))
	// Output: builder starts, since 1 message came
}
