package main

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPReaderKilled checks that messages taken under a lease through `mailroom mcp` are returned as soon as that
// process is killed, long before the end of the lease, and not while it lives.
func TestMCPReaderKilled(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note")
	cmd, _, s := o.startTools("b", "relay")
	got, err := s.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "get_messages", Arguments: map[string]any{"lease_seconds": 86400}})
	if err != nil || got.IsError {
		t.Fatal(err, got)
	}
	if answer := got.StructuredContent.(map[string]any); answer["count"] != 1.0 || answer["leaseUntil"] == nil {
		t.Fatalf("the reader gets %v", answer)
	}
	if another := o.run("wait", "--as", "b", "--timeout", "0"); another["count"] != 0.0 {
		t.Fatalf("another reader gets %v", another)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if next := o.run("wait", "--as", "b", "--timeout", "60"); next["count"] != 1.0 {
		t.Errorf("the next reader gets %v", next)
	}
}

// TestKilledReadersLoseNothing kills readers of one agent while they take messages, and after they were handed some,
// which they do not acknowledge. Every message is acknowledged in the end, and no reader was ever shown a message
// that another still had.
func TestKilledReadersLoseNothing(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	sender, err := o.startSender()
	if err != nil {
		t.Fatal(err)
	}
	const messages = 24
	for range messages {
		if _, err := sender.in.Write([]byte(`{"sender":"a","recipient":"b","message_type":"note"}` +
			"\n")); err != nil {
			t.Fatal(err)
		}
		if !sender.out.Scan() {
			t.Fatal(sender.out.Err())
		}
	}
	sender.in.Close()
	if err := sender.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for n := 0; ; n++ {
		if ctx.Err() != nil {
			t.Fatalf("still not acknowledged: %q",
				o.rows(`SELECT message_id FROM agent_message WHERE acknowledged_at = ''`))
		}
		reader := o.command("wait", "--as", "b", "--batch-size", "4", "--lease", "1s", "--timeout", "2")
		out, err := reader.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Start(); err != nil {
			t.Fatal(err)
		}
		if n%3 == 0 { // at any point
			reader.Process.Kill()
		}
		var answer struct {
			Messages []struct {
				ID string `json:"message_id"`
			} `json:"messages"`
			TimedOut bool `json:"timed_out"`
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		reader.Process.Kill()
		reader.Wait()
		if json.Unmarshal([]byte(line), &answer) != nil || n%3 != 2 {
			continue // killed before it printed anything, or its reader was
		}
		for _, m := range answer.Messages {
			o.run("acknowledge", m.ID, "--as", "b")
		}
		if strings.Join(o.rows(`SELECT count(*) FROM agent_message WHERE acknowledged_at = ''`), "") == "0" {
			break
		}
	}
	held := map[string]bool{}
	for _, row := range o.rows(`SELECT message_id, event FROM message_trace
		WHERE event IN ('shown','released','acknowledged') ORDER BY id`) {
		id, event, _ := strings.Cut(row, "|")
		if event == "shown" && held[id] {
			t.Errorf("%s was shown while a reader had it", id)
		}
		held[id] = event == "shown"
	}
	if left := o.rows(`SELECT message_id FROM reading_lease`); len(left) > 0 || len(held) != messages {
		t.Errorf("%d messages were shown, and these leases are left: %q", len(held), left)
	}
}

// TestServeGivesBack checks that a daemon returns messages that were not acknowledged in time, even if nobody waits
// for them.
func TestServeGivesBack(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	o.serve()
	o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note")
	if got := o.run("wait", "--as", "b", "--lease", "1s"); got["count"] != 1.0 {
		t.Fatalf("the reader gets %v", got)
	}
	o.await(`SELECT count(*) FROM message_trace WHERE event = 'released'`, "1")
	o.await(`SELECT read_at = '' FROM agent_inbox`, "1")
}
