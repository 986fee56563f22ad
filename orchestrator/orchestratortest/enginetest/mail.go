package enginetest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// Send sends a note, and returns the ID of the message.
func (f *Fixture) Send(sender, recipient string, change ...func(*orchestrator.Draft)) string {
	f.T.Helper()
	d := orchestrator.Draft{Sender: sender, Recipient: recipient, Type: "note", Payload: []byte(`{"n":1}`)}
	for _, c := range change {
		c(&d)
	}
	sent, err := messages.Send(f.T.Context(), f.Ledger, d)
	if err != nil {
		f.T.Fatal(err)
	}
	return sent.MessageID
}

// Deliver delivers all messages that are due.
func (f *Fixture) Deliver() delivery.Delivery {
	f.T.Helper()
	d, err := f.DeliverAll(f.T.Context(), delivery.Options{})
	if err != nil {
		f.T.Fatal(err)
	}
	return d
}

// Message returns the current state of a message.
func (f *Fixture) Message(id string) orchestrator.Message {
	f.T.Helper()
	ms, err := messages.Find(f.T.Context(), f.Ledger, id)
	if err != nil {
		f.T.Fatal(err)
	}
	return ms[0]
}

// Why explains a message.
func (f *Fixture) Why(id string) overview.Reason {
	f.T.Helper()
	reasons, err := overview.Why(f.T.Context(), f.Ledger, id)
	if err != nil {
		f.T.Fatal(err)
	}
	return reasons[0]
}

// NextDue returns when the next run is planned, no earlier than now, or "" if none is planned.
func (f *Fixture) NextDue() string {
	f.T.Helper()
	state, err := overview.Status(f.T.Context(), f.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	return state.NextDueAt
}

// Take reads an agent's unread messages. There must be at least one.
func (f *Fixture) Take(agent string) {
	f.T.Helper()
	if ms, _, err := reading.Wait(f.T.Context(), f.Ledger, reading.Options{Recipient: agent, Limit: 9}); err != nil ||
		len(ms) == 0 {
		f.T.Fatalf("%s got %v, %v", agent, ms, err)
	}
}

// TakeFor reads an agent's unread messages, under a lease unless lease is 0.
func (f *Fixture) TakeFor(agent string, lease time.Duration) (ms []orchestrator.Message) {
	f.T.Helper()
	ms, _, err := reading.Wait(f.T.Context(), f.Ledger, reading.Options{
		Recipient: agent, Limit: 10, Lease: messages.ReadingLease{For: lease, Holder: "wait"},
	})
	if err != nil {
		f.T.Fatal(err)
	}
	return ms
}

// DeadWait records a wait, as a process would that was killed while it waited.
func (f *Fixture) DeadWait(waiter, waitsFor string, until time.Time) {
	f.T.Helper()
	f.SQL(`INSERT INTO waits (id, waiter, waits_for, instance, since, until) VALUES (?, ?, ?, 'killed', ?, ?)`,
		"wait-"+waiter+waitsFor, waiter, waitsFor, f.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		until.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// Clear archives and deletes old messages.
func (f *Fixture) Clear(o retention.ClearOptions) retention.Cleared {
	f.T.Helper()
	cleared, err := retention.ClearOld(f.T.Context(), f.Ledger, o)
	if err != nil {
		f.T.Fatal(err)
	}
	return cleared
}

// ArchiveAll moves all messages to the archive, regardless of age and status.
func (f *Fixture) ArchiveAll() {
	f.T.Helper()
	f.SQL(`INSERT INTO agent_message_archive SELECT message_id, sender, recipient, message_type, payload, status,
		created_at, delivered_at,
		retry_count, max_retries, error_message, seq, traced_status, next_attempt_at, review_at, expires_at, ended_at,
			ttl_seconds,
		priority, held, summary, context, action, thread_id, session_id, reply_to, hops, multicast_id, multicast_target,
		idempotency_key, read_at, acknowledged_at, lease_token, lease_until, lease_owner, crashes, delivery_marks,
			trace_id, span_id,
		created_at, origin, not_before, wake FROM agent_message WHERE seq NOT IN (SELECT seq FROM agent_message_archive)`)
	f.SQL(`DELETE FROM agent_message`)
}

// Verdict returns a function that answers a request as vocabularies do.
func Verdict(approve bool) func(orchestrator.Asked) (*orchestrator.Verdict, error) {
	return func(q orchestrator.Asked) (*orchestrator.Verdict, error) {
		return &orchestrator.Verdict{
			Approve: approve, Type: string(q.Kind) + "_response",
			Payload: json.RawMessage(fmt.Sprintf(`{"approve":%v}`, approve)), Summary: "decided",
		}, nil
	}
}

// FileLines returns the lines of a file.
func FileLines(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

// Mark returns the mark of a message; see hosts.Mark.
func (f *Fixture) Mark(id string) string {
	f.T.Helper()
	ms, err := messages.Find(f.T.Context(), f.Ledger, id)
	if err != nil {
		f.T.Fatal(err)
	}
	mark, err := hosts.Mark(f.T.Context(), f.Ledger, &ms[0])
	if err != nil {
		f.T.Fatal(err)
	}
	return mark
}
