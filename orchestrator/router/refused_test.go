package router_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
)

// A message that its recipient refuses for good is a dead letter at once, without a rung and without the fallback, and its
// sender is told. Those behind it go on.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	target, fallback := "wire:b", "jsonl:"+filepath.Join(t.TempDir(), "b.jsonl")
	f.add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	id := f.send("a", "b")
	f.wire.set(refusing(fmt.Errorf("exit status 65: %w", orchestrator.ErrRefused)))
	d := f.deliver()
	want(t, "failed attempts", d.Failed, 1)
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Failed)
	want(t, "retry_count", m.RetryCount, 0)
	if !strings.Contains(m.Error, "exit status 65") {
		t.Errorf("error_message %q does not say what the recipient answered", m.Error)
	}
	wantRows(t, f.rows(`SELECT event, attempt FROM message_trace WHERE message_id = ? ORDER BY id`, id),
		"created 0", "claimed 1", "attempt_failed 1", "failed 1")
	wantRows(t, f.rows(`SELECT message_type, json_extract(payload, '$.message_id') FROM agent_message WHERE recipient = 'a'`), "error_report "+id)
	f.wire.set(nil)
	next := f.send("a", "b")
	want(t, "delivered", f.deliver().Delivered >= 1, true)
	want(t, "the next one", f.message(next).Status, orchestrator.Delivered)
}
