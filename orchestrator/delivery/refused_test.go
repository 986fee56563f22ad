package delivery_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// A message that its recipient refuses for good is a dead letter at once, without a rung and without the fallback, and its
// sender is told. Those behind it go on.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	target, fallback := "wire:b", "jsonl:"+filepath.Join(t.TempDir(), "b.jsonl")
	f.Add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	id := f.Send("a", "b")
	f.Wire.Set(enginetest.Refusing(fmt.Errorf("exit status 65: %w", orchestrator.ErrRefused)))
	d := f.Deliver()
	want.Equal(t, "failed attempts", d.Failed, 1)
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Failed)
	want.Equal(t, "retry_count", m.RetryCount, 0)
	if !strings.Contains(m.Error, "exit status 65") {
		t.Errorf("error_message %q does not say what the recipient answered", m.Error)
	}
	want.Rows(t, f.Rows(`SELECT event, attempt FROM message_trace WHERE message_id = ? ORDER BY id`, id),
		"created 0", "claimed 1", "attempt_failed 1", "failed 1")
	want.Rows(t, f.Rows(`SELECT message_type, json_extract(payload, '$.message_id') FROM agent_message WHERE recipient = 'a'`), "error_report "+id)
	f.Wire.Set(nil)
	next := f.Send("a", "b")
	want.Equal(t, "delivered", f.Deliver().Delivered >= 1, true)
	want.Equal(t, "the next one", f.Message(next).Status, orchestrator.Delivered)
}
