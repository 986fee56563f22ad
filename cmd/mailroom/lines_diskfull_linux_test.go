package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

// TestFullDiskAnswersEveryLine checks that if the disk fills during `send --stdin`, each line has its answer: the
// first ones are sent, and all others rejected.
func TestFullDiskAnswersEveryLine(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has a disk of its own")
	o := newOfficeOf(t, "mailroom", orchestratortest.SmallDisk(t, 8), "a", "b")
	if err := os.WriteFile(filepath.Join(o.folder, "ballast"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const lines = 2000
	var in strings.Builder
	for n := 1; n <= lines; n++ {
		fmt.Fprintf(&in, `{"sender":"a","recipient":"b","message_type":"note","payload":"%d %s"}`+"\n", n,
			strings.Repeat("x", 5_000))
	}
	cmd := o.command("send", "--stdin")
	cmd.Stdin = strings.NewReader(in.String())
	out, _ := cmd.Output()
	if status := cmd.ProcessState.ExitCode(); status != 75 {
		t.Errorf("exit status %d; want 75", status)
	}
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(answers) != lines {
		t.Fatalf("%d lines are answered; want %d", len(answers), lines)
	}
	var sent []string
	for i, text := range answers {
		var answer struct {
			Success   bool
			MessageID string `json:"message_id"`
			Error     string
			Line      int
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		switch {
		case answer.Success && len(sent) == i:
			sent = append(sent, answer.MessageID)
		case answer.Success || answer.Error != "unavailable" || answer.Line != i+1:
			t.Fatalf("line %d, after %d that were sent: %.300s", i+1, len(sent), text)
		}
	}
	if len(sent) == lines {
		t.Fatal("the disk never fills")
	}
	if stored := o.rows(`SELECT message_id FROM agent_message ORDER BY seq`); !slices.Equal(stored, sent) {
		t.Errorf("%d lines are acknowledged, and %d messages stored", len(sent), len(stored))
	}
	t.Logf("%d of %d lines were sent", len(sent), lines)
}
