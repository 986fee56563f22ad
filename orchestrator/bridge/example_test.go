package bridge_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/reading"
)

// The agent developer uses only files: it finds its messages in a folder, and puts its own into the folders of
// others. Run continuously does what Once does here.
func ExampleOnce() {
	ctx := context.Background()
	e, done := example.Open("pm")
	defer done()

	root := filepath.Join(filepath.Dir(e.Ledger.Path()), "messages")
	if err := os.MkdirAll(filepath.Join(root, "pm"), 0o700); err != nil {
		log.Fatal(err)
	}
	deliver := "dir:" + root
	if _, _, err := agents.Add(ctx, e.Ledger, agents.Update{Name: "developer", Deliver: &deliver}); err != nil {
		log.Fatal(err)
	}

	letter := `{"id":"msg-pm-1","from":"developer","to":"pm","type":"question","payload":{"taskId":"feat-001","question":"Which port?"}}`
	if err := os.WriteFile(filepath.Join(root, "pm", "msg-pm-1.json"), []byte(letter), 0o600); err != nil {
		log.Fatal(err)
	}
	if _, err := messages.Send(ctx, e.Ledger, orchestrator.Draft{
		ID: "msg-developer-1", Sender: "pm", Recipient: "developer", Type: "task_assign",
		Payload: []byte(`{"taskId":"feat-001"}`),
	}); err != nil {
		log.Fatal(err)
	}

	did, err := bridge.Once(ctx, e, bridge.Options{Root: root, Name: "watchdog"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("taken in:", did.TakenIn, "problems:", did.Problems)

	got, _, err := reading.Wait(ctx, e.Ledger, reading.Options{Recipient: "pm", Limit: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range got {
		fmt.Println("pm reads", m.ID, string(m.Payload))
	}
	files, err := os.ReadDir(filepath.Join(root, "developer"))
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range files {
		fmt.Println("developer finds", file.Name())
	}
	// Output:
	// taken in: 1 problems: 0
	// pm reads msg-pm-1 {"taskId":"feat-001","question":"Which port?"}
	// developer finds msg-developer-1.json
}
