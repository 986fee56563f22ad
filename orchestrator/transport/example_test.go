package transport_test

import (
	"bufio"
	"context"
	"encoding/json"
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
	"mailroom/orchestrator/transport"
)

// A program that opens a database registers the transports by their schemes. An agent has an address of one of
// them: here a file, to which each message is appended as a line of JSON.
func ExampleJSONL() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "mailroom")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	e, err := router.Open(ctx, ledger.Options{
		Path:       filepath.Join(folder, "mailroom.db"),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	deliver := "jsonl:" + filepath.Join(folder, "builder.jsonl")
	for _, agent := range []agents.Update{{Name: "architect"}, {Name: "builder", Deliver: &deliver}} {
		if _, _, err := agents.Add(ctx, e.Ledger, agent); err != nil {
			log.Fatal(err)
		}
	}
	for _, spec := range []string{`"SPEC-031"`, `"SPEC-032"`} {
		if _, err := messages.Send(ctx, e.Ledger, orchestrator.Draft{
			Sender: "architect", Recipient: "builder", Type: "spec_ready", Payload: json.RawMessage(spec),
		}); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := e.DeliverAll(ctx, delivery.Options{}); err != nil {
		log.Fatal(err)
	}

	file, err := os.Open(filepath.Join(folder, "builder.jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 2*orchestrator.MaxPayload) // a line can be longer than Scanner's default limit
	for lines.Scan() {
		var m struct {
			Sender  string          `json:"sender"`
			Type    string          `json:"message_type"`
			Payload json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			continue // torn by a crash, and written again
		}
		fmt.Println(m.Sender, m.Type, string(m.Payload))
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// architect spec_ready "SPEC-031"
	// architect spec_ready "SPEC-032"
}
