package router_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// TestBadRowsJamNobody checks that rows that cannot be adopted or changed fail or are skipped, and that all other
// messages are delivered.
func TestBadRowsJamNobody(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('big', 'a', 'b', ?)`,
		strings.Repeat("0", 20_000_000))
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('stuck', 'a', 'b', '"bad"')`)
	f.Forbid("UPDATE", "agent_message", `new.message_id = 'stuck'`, "no")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, created_at, ttl_seconds, hops) VALUES
		('odd', 'a', 'b', '1', '9999-12-31 23:59:59', -5, 9223372036854775807)`)
	blob := any("\x01\x02")
	if !f.OnServer() {
		blob = []byte("\x01\x02")
	}
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES (?, 'a', 'b', '2')`, blob)
	f.SQL(`INSERT INTO message_trace (message_id, at, event) VALUES ('x', 'zzzzzzzzzzzzzzzzzzzzzzzz', 'created'),
		('x', '9999-12-31T23:59:59.000Z', 'created')`)
	good := f.Send("a", "c")
	f.Set("delivery.claim_size", "1")
	f.Deliver()
	want.Equal(t, "status of another's message", f.Message(good).Status, orchestrator.Delivered)
	want.Equal(t, "status of the one too big", f.Message("big").Status, orchestrator.Failed)
	want.Equal(t, "status of the odd one", f.Message("odd").Status, orchestrator.Delivered)
	want.Equal(t, "hops of the odd one", f.Message("odd").Hops, 1_000_000)
	for range 3 {
		ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if m.ID == "\x01\x02" {
				f.Clock.Advance(time.Second)
			}
		}
	}
	want.Equal(t, "readings of the one with a blob for an id",
		len(f.Rows(`SELECT 1 FROM message_trace WHERE message_id = ? AND event = 'read'`, "\x01\x02")), 1)
	f.Clear(retention.ClearOptions{OlderThan: time.Millisecond})
}

// TestNothingEndsBeforeItsTransportWasAsked checks that a message that may have arrived is not expired, cancelled or
// handed to a fallback before its transport was asked.
func TestNothingEndsBeforeItsTransportWasAsked(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	path := t.TempDir() + "/b.jsonl"
	target := "jsonl:" + path
	f.Add(agents.Update{Name: "b", Deliver: &target})
	id := f.Send("a", "b", func(d *orchestrator.Draft) { d.TTL = time.Second })
	f.Deliver()
	f.SQL(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '',
		review_at = expires_at, lease_token = 'dead', lease_until = ? WHERE message_id = ?`,
		f.Clock.Now().Format("2006-01-02T15:04:05.000Z"), id)
	_, err := messages.Cancel(t.Context(), f.Ledger, id, "a")
	want.Code(t, err, orchestrator.Conflict)
	f.Clock.Advance(2 * time.Second)
	f.Deliver()
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Delivered)
	want.Equal(t, "lines", len(enginetest.FileLines(t, path)), 1)
}

// TestFallbackAsksFirst checks that a fallback does not write a message again that a transport has written before it
// failed to return.
func TestFallbackAsksFirst(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	main, fallback := t.TempDir()+"/main.jsonl", "jsonl:"+t.TempDir()+"/fallback.jsonl"
	target := "hung:" + main
	f.Add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	id := f.Send("a", "b")
	if _, err := f.DeliverAll(t.Context(), delivery.Options{Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
	want.Equal(t, "lines", len(enginetest.FileLines(t, main)), 1)
	if rows := f.Rows(`SELECT error FROM message_trace WHERE message_id = ? AND error LIKE '%fallback%'`,
		id); len(rows) > 0 {
		t.Errorf("the fallback took part: %v", rows)
	}
}

func TestReplayOfAHeldMessage(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	id := f.Send("a", "later", func(d *orchestrator.Draft) { d.HoldUnknown, d.TTL = true, time.Second })
	f.Clock.Advance(2 * time.Second)
	f.Deliver()
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Expired)
	f.Add(agents.Update{Name: "later"})
	if _, err := messages.Replay(t.Context(), f.Ledger, id, ""); err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	want.Equal(t, "status after the replay", f.Message(id).Status, orchestrator.Delivered)
}

func TestDatabaseIsNoTarget(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	keys := f.Ledger.FilePrefix() + "-signal"
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(keys, "devices"), 0o700), os.Symlink(keys, link)); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"jsonl:" + f.Ledger.FilePrefix(), "jsonl:" + f.Ledger.FilePrefix() + "-wal",
		"jsonl:" + f.Ledger.FilePrefix() + "-turnstile",
		"jsonl:" + keys + "/x", "jsonl:" + keys + "/devices/d-00000000", "jsonl:" + link + "/devices/d-00000000"} {
		_, _, err := agents.Add(t.Context(), f.Ledger, agents.Update{Name: "b", Deliver: &target})
		if orchestrator.CodeOf(err) != orchestrator.InvalidParams ||
			!strings.Contains(err.Error(), "belongs to the database") {
			t.Errorf("%s: %v", target, err)
		}
	}
}
