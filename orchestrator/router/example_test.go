package router_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/transport"
)

// A program opens a database, adds two agents, sends a message from one to the other, and reads it.
func ExampleOpen() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "mailroom")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	e, err := router.Open(ctx, ledger.Options{
		Path:       filepath.Join(folder, "mailroom.db"),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	for _, name := range []string{"architect", "code_developer"} {
		if _, _, err := agents.Add(ctx, e.Ledger, agents.Update{Name: name}); err != nil {
			log.Fatal(err)
		}
	}

	if _, err := messages.Send(ctx, e.Ledger, orchestrator.Draft{
		Sender: "architect", Recipient: "code_developer", Type: "spec_ready", Payload: []byte(`{"spec_id":"SPEC-031"}`),
	}); err != nil {
		log.Fatal(err)
	}

	got, _, err := reading.Wait(ctx, e.Ledger,
		reading.Options{Recipient: "code_developer", Timeout: time.Minute, Limit: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range got {
		fmt.Println(m.Sender, m.Type, string(m.Payload))
	}
	// Output: architect spec_ready {"spec_id":"SPEC-031"}
}

// A test sets the clock of the engine, so that it need not sleep until a message is due.
func ExampleOpen_clock() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "mailroom")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e, err := router.Open(ctx, ledger.Options{
		Path:       filepath.Join(folder, "mailroom.db"),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
		Now:        func() time.Time { return now },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	if _, _, err := agents.Add(ctx, e.Ledger, agents.Update{Name: "architect"}); err != nil {
		log.Fatal(err)
	}
	if _, err := messages.Send(ctx, e.Ledger, orchestrator.Draft{
		Sender: "architect", Recipient: "architect", Type: "reminder", Delay: time.Hour,
	}); err != nil {
		log.Fatal(err)
	}

	for range 2 {
		run, err := e.DeliverAll(ctx, delivery.Options{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(now.Format(time.TimeOnly), "delivered:", run.Delivered)
		now = now.Add(time.Hour)
	}
	// Output:
	// 03:04:05 delivered: 0
	// 04:04:05 delivered: 1
}
