package retention_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/retention"
)

// ClearOld removes messages that ended longer ago than OlderThan. Unread messages stay. Without OlderThan, the
// settings of the database apply.
func ExampleClearOld() {
	ctx := context.Background()
	now := time.Now()
	e, done := example.OpenWith(func() time.Time { return now }, "architect", "code_developer")
	defer done()

	var ids []string
	for _, spec := range []string{"SPEC-031", "SPEC-032"} {
		sent, err := messages.Send(ctx, e.Ledger, orchestrator.Draft{
			Sender: "architect", Recipient: "code_developer", Type: "spec_ready", Payload: fmt.Appendf(nil, "%q", spec),
		})
		if err != nil {
			log.Fatal(err)
		}
		ids = append(ids, sent.MessageID)
	}
	if _, err := messages.Cancel(ctx, e.Ledger, ids[0], "architect"); err != nil {
		log.Fatal(err)
	}
	now = now.Add(48 * time.Hour)

	cleared, err := retention.ClearOld(ctx, e.Ledger, retention.ClearOptions{OlderThan: 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("deleted:", cleared.Deleted, "cancelled:", cleared.Statuses[orchestrator.Cancelled])

	for _, id := range ids {
		_, err := messages.Find(ctx, e.Ledger, id)
		fmt.Println("gone:", orchestrator.CodeOf(err) == orchestrator.NotFound)
	}
	// Output:
	// deleted: 1 cancelled: 1
	// gone: true
	// gone: false
}
