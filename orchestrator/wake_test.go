package orchestrator_test

import (
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
)

// Messages without any rule have the wake of their type.
func TestWakeOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		m     orchestrator.Message
		rules string
		wake  orchestrator.Wake
		by    string
	}{
		{orchestrator.Message{}, "", "now", ""},
		{orchestrator.Message{Type: "Ack", Priority: 9}, "", "never", ""},
		{orchestrator.Message{Type: "PONG"}, "", "never", ""},
		{orchestrator.Message{Priority: -1}, "", "never", ""},
		{orchestrator.Message{Priority: -1, Action: "interrupt"}, "", "now", ""},
		{orchestrator.Message{Type: "STATUS"}, "", "rest", ""},
		{orchestrator.Message{Sender: "system"}, "", "rest", ""},
		{orchestrator.Message{Type: "STATUS", Wake: "now", Sender: "a"}, "", "now", "a"},
		{orchestrator.Message{Wake: "sometimes", Sender: "a"}, "", "now", ""},
		{orchestrator.Message{Wake: "now", Sender: "a", Recipient: "b"}, "rest", "rest", "b"},
		{orchestrator.Message{Wake: "never", Sender: "a", Recipient: "b"}, "rest", "never", "a"},
		{orchestrator.Message{Type: "ACK", Recipient: "b"}, "rest", "never", ""},
		{orchestrator.Message{Type: "ACK", Recipient: "b"}, "ack=rest", "rest", "b"},
		{orchestrator.Message{Wake: "never", Sender: "a", Recipient: "b"}, "now", "now", "b"},
		{orchestrator.Message{Type: "task", Recipient: "b"}, "never,TASK=rest", "rest", "b"},
		{orchestrator.Message{Type: "Other", Recipient: "b"}, "task=rest", "now", ""},
	} {
		rules, err := orchestrator.ParseWakeRules(test.rules)
		want.Equal(t, "error", err, nil)
		wake, by := rules.WakeOf(&test.m)
		want.Equal(t, "wake", wake, test.wake)
		want.Equal(t, "wanted by", by, test.by)
	}
}

func TestWakeRules(t *testing.T) {
	t.Parallel()
	for text, canonical := range map[string]string{
		" ": "", " never , status = REST ": "never,STATUS=rest", "b=rest,a=now": "A=now,B=rest",
	} {
		rules, err := orchestrator.ParseWakeRules(text)
		want.Equal(t, "error", err, nil)
		want.Equal(t, text, rules.String(), canonical)
	}
	for _, text := range []string{"always", "=now", "STATUS", "STATUS=", "a=b=now", ",", "never,", "rest,never", "a=now,A=now"} {
		_, err := orchestrator.ParseWakeRules(text)
		want.Equal(t, text, orchestrator.CodeOf(err), orchestrator.InvalidParams)
	}
}
