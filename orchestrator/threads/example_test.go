package threads_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/threads"
)

// All participants of a thread read every post. A mentioned participant also gets the post as a message.
func ExamplePost() {
	ctx := context.Background()
	e, done := example.Open("ada", "grace", "linus")
	defer done()

	thread, err := threads.Create(ctx, e.Ledger, threads.Draft{
		Session: orchestrator.DefaultSession, Name: "release 2.0", Creator: "ada",
		Participants: []string{"grace", "linus"},
	})
	if err != nil {
		log.Fatal(err)
	}

	posted, err := threads.Post(ctx, e.Ledger, threads.PostDraft{
		Thread: thread.ID, Sender: "ada", Mentions: []string{"grace"}, Type: "question",
		Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`"Are the notes ready?"`), nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("mentioned:", posted.Mentions)

	for _, reader := range []string{"grace", "linus"} {
		read, err := threads.Read(ctx, e.Ledger, threads.ReadOptions{Thread: thread.ID, Agent: reader, Limit: 10})
		if err != nil {
			log.Fatal(err)
		}
		for _, post := range read.Posts {
			fmt.Println(reader, "reads", post.Sender, string(post.Payload))
		}
	}
	// Output:
	// mentioned: [grace]
	// grace reads ada "Are the notes ready?"
	// linus reads ada "Are the notes ready?"
}
