package agents_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
)

// Adding an existing agent changes only the fields that the update sets.
func ExampleAdd() {
	ctx := context.Background()
	e, done := example.Open()
	defer done()

	role := "reviewer"
	for _, update := range []agents.Update{{Name: "ada"}, {Name: "ada", Role: &role}} {
		agent, created, err := agents.Add(ctx, e.Ledger, update)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, role %q, gets mail by %s, created: %t\n", agent.Name, agent.Role, agent.Deliver, created)
	}
	// Output:
	// ada, role "", gets mail by inbox, created: true
	// ada, role "reviewer", gets mail by inbox, created: false
}

// A message to a group goes to each of its members, including the sender if it is a member.
func ExampleSetGroup() {
	ctx := context.Background()
	e, done := example.Open("ada", "grace", "linus")
	defer done()

	if _, err := agents.SetGroup(ctx, e.Ledger, "reviewers", []string{"ada", "grace", "linus"}); err != nil {
		log.Fatal(err)
	}
	sent, err := messages.Send(ctx, e.Ledger,
		orchestrator.Draft{Sender: "ada", Recipient: "reviewers", Type: "please_review"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Recipients)
	// Output: [ada grace linus]
}
