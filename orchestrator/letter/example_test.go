package letter_test

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"mailroom/orchestrator/letter"
)

// A program without a database writes a message as a file into the folder of its recipient.
func ExampleLetter_Encode() {
	folder, err := os.MkdirTemp("", "mailroom")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	l := letter.Letter{
		ID: "msg-pm-20250123-120005-001", From: "developer", To: "pm", Type: "question", Priority: "normal",
		Payload: json.RawMessage(`{"taskId":"feat-001","question":"Which port?"}`),
		About:   letter.About{Timestamp: "2025-01-23T12:00:05.0000000Z", Status: "pending"},
	}
	if _, err := letter.Check(l.Type, l.From, l.Payload); err != nil {
		log.Fatal(err)
	}
	text, err := l.Encode()
	if err != nil {
		log.Fatal(err)
	}
	name, err := letter.FileName(l.ID)
	if err != nil {
		log.Fatal(err)
	}

	// A program that reads the folder must not find an incomplete file.
	if err := os.WriteFile(filepath.Join(folder, name+".new"), text, 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.Rename(filepath.Join(folder, name+".new"), filepath.Join(folder, name)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(name)
	fmt.Print(string(text))
	// Output:
	// msg-pm-20250123-120005-001.json
	// {
	//   "id": "msg-pm-20250123-120005-001",
	//   "from": "developer",
	//   "to": "pm",
	//   "type": "question",
	//   "priority": "normal",
	//   "payload": {
	//     "taskId": "feat-001",
	//     "question": "Which port?"
	//   },
	//   "timestamp": "2025-01-23T12:00:05.0000000Z",
	//   "status": "pending",
	//   "replyTo": null
	// }
}

// Parse reads such a file, and its error names the place of a fault.
func ExampleParse() {
	for _, text := range []string{
		`{"id": "msg-1", "from": "developer", "to": "pm", "type": "question", "payload": "Which port?"}`,
		`{"id": "msg-2", "from": "developer", "to": "pm", "type": "question"}`,
	} {
		l, err := letter.Parse([]byte(text))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(l.From, "to", l.To, l.Priority, string(l.Payload))
	}
	// Output:
	// developer to pm normal "Which port?"
	// payload: missing
}
