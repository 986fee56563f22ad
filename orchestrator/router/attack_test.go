package router_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// Rows that nobody can adopt or change fail or stay alone: everybody else's messages go on.
func TestBadRowsJamNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('big', 'a', 'b', zeroblob(20000000))`)
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('stuck', 'a', 'b', '"bad"')`)
	f.sql(`CREATE TRIGGER jam BEFORE UPDATE ON agent_message WHEN new.message_id = 'stuck' BEGIN SELECT RAISE(ABORT, 'no'); END`)
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, created_at, ttl_seconds, hops) VALUES
		('odd', 'a', 'b', '1', '9999-12-31 23:59:59', -5, 9223372036854775807)`)
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES (x'0102', 'a', 'b', '2')`)
	f.sql(`INSERT INTO message_trace (message_id, at, event) VALUES ('x', 'zzzzzzzzzzzzzzzzzzzzzzzz', 'created'), ('x', '9999-12-31T23:59:59.000Z', 'created')`)
	good := f.send("a", "c")
	f.setting("delivery.claim_size", "1")
	f.deliver()
	want(t, "status of another's message", f.message(good).Status, orchestrator.Delivered)
	want(t, "status of the one too big", f.message("big").Status, orchestrator.Failed)
	want(t, "status of the odd one", f.message("odd").Status, orchestrator.Delivered)
	want(t, "hops of the odd one", f.message("odd").Hops, 1_000_000)
	for range 3 {
		ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if m.ID == "\x01\x02" {
				f.clock.advance(time.Second)
			}
		}
	}
	want(t, "readings of the one with a blob for an id", len(f.rows(`SELECT 1 FROM message_trace WHERE message_id = ? AND event = 'read'`, "\x01\x02")), 1)
	f.clear(retention.ClearOptions{OlderThan: time.Millisecond})
}

// A message that may have arrived is neither expired, cancelled nor handed to a fallback before its transport was asked.
func TestNothingEndsBeforeItsTransportWasAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	path := t.TempDir() + "/b.jsonl"
	target := "jsonl:" + path
	f.add(agents.Update{Name: "b", Deliver: &target})
	id := f.send("a", "b", func(d *orchestrator.Draft) { d.TTL = time.Second })
	f.deliver()
	f.sql(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', ended_at = '', review_at = expires_at, lease_token = 'dead', lease_until = ? WHERE message_id = ?`,
		f.clock.now().Format("2006-01-02T15:04:05.000Z"), id)
	_, err := messages.Cancel(t.Context(), f.Ledger, id, "a")
	wantCode(t, err, orchestrator.Conflict)
	f.clock.advance(2 * time.Second)
	f.deliver()
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Delivered)
	want(t, "lines", len(fileLines(t, path)), 1)
}

// A transport that has written and does not come back: the fallback must not write it again.
func TestFallbackAsksFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	main, fallback := t.TempDir()+"/main.jsonl", "jsonl:"+t.TempDir()+"/fallback.jsonl"
	target := "hung:" + main
	f.add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	id := f.send("a", "b")
	if _, err := f.DeliverAll(t.Context(), delivery.Options{Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	want(t, "status", f.message(id).Status, orchestrator.Delivered)
	want(t, "lines", len(fileLines(t, main)), 1)
	if rows := f.rows(`SELECT error FROM message_trace WHERE message_id = ? AND error LIKE '%fallback%'`, id); len(rows) > 0 {
		t.Errorf("the fallback took part: %v", rows)
	}
}

// hung is a file transport that writes, and then does not come back before its time is up.
type hung struct{ orchestrator.Transport }

func (h hung) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	h.Transport.Deliver(ctx, a)
	<-ctx.Done()
	return []error{fmt.Errorf("no answer: %w", ctx.Err())}
}

func (h hung) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	return h.Transport.(orchestrator.Recoverer).Recover(ctx, a)
}

func TestReplayOfAHeldMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	id := f.send("a", "later", func(d *orchestrator.Draft) { d.HoldUnknown, d.TTL = true, time.Second })
	f.clock.advance(2 * time.Second)
	f.deliver()
	want(t, "status", f.message(id).Status, orchestrator.Lapsed)
	f.add(agents.Update{Name: "later"})
	if _, err := messages.Replay(t.Context(), f.Ledger, id, ""); err != nil {
		t.Fatal(err)
	}
	f.deliver()
	want(t, "status after the replay", f.message(id).Status, orchestrator.Delivered)
}

func TestDatabaseIsNoTarget(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	keys := f.path + "-signal"
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(keys, "devices"), 0o700), os.Symlink(keys, link)); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"jsonl:" + f.path, "jsonl:" + f.path + "-wal", "jsonl:" + f.path + "-turnstile",
		"jsonl:" + keys + "/x", "jsonl:" + keys + "/devices/d-00000000", "jsonl:" + link + "/devices/d-00000000"} {
		_, _, err := agents.Add(t.Context(), f.Ledger, agents.Update{Name: "b", Deliver: &target})
		if orchestrator.CodeOf(err) != orchestrator.InvalidParams || !strings.Contains(err.Error(), "belongs to the database") {
			t.Errorf("%s: %v", target, err)
		}
	}
}
