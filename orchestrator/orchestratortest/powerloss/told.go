package powerloss

import (
	"encoding/json"
	"strings"
)

// told records what other programs may have seen: the answers of the program, and the content of the files that it
// wrote for them.
type told struct {
	sent    map[string]bool // acknowledged sends
	refused map[string]bool // sends to unknown recipients that were reported as kept as dead letters
	read    map[string]bool // printed by a wait
	acked   map[string]bool // acknowledged messages
	written map[string]bool // in a write to a jsonl file, or named in the folder
	backups map[string]bool // reported backups, by path

	unsynced map[string]bool // recipients whose jsonl file was never synced with content
}

func newTold() told {
	return told{
		sent: map[string]bool{}, refused: map[string]bool{}, read: map[string]bool{}, acked: map[string]bool{},
		written: map[string]bool{}, backups: map[string]bool{},
	}
}

// hear records the answers of a program.
func (t *told) hear(data []byte) {
	for line := range strings.Lines(string(data)) {
		var answer struct {
			Success   bool   `json:"success"`
			Action    string `json:"action"`
			Error     string `json:"error"`
			MessageID string `json:"message_id"`
			File      string `json:"file"`
			Messages  []struct {
				MessageID string `json:"message_id"`
			} `json:"messages"`
		}
		if json.Unmarshal([]byte(line), &answer) != nil {
			continue
		}
		if !answer.Success {
			if answer.Error == "unknown_recipient" {
				t.refused[answer.MessageID] = true
			}
			continue
		}
		switch answer.Action {
		case "send":
			t.sent[answer.MessageID] = true
		case "wait":
			for _, m := range answer.Messages {
				t.read[m.MessageID] = true
			}
		case "acknowledge":
			t.acked[answer.MessageID] = true
		case "backup":
			t.backups[answer.File] = true
		}
	}
}

// idOf returns the ID of the message in a line of a jsonl file, or "" if the line is not JSON.
func idOf(line []byte) string {
	var l struct {
		MessageID string `json:"message_id"`
	}
	if json.Unmarshal(line, &l) != nil {
		return ""
	}
	return l.MessageID
}
