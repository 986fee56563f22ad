package parameter

import "testing"

func TestFlag(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"threadId": "thread-id", "batch_size": "batch-size", "BATCH_SIZE": "batch-size", "timeoutMs": "timeout-ms",
		"sessionId": "session-id", "reply_to": "reply-to", "to": "to", "agentID": "agent-id", "URL": "url",
	} {
		p := Param{Name: name}
		if got := p.Flag(); got != want {
			t.Errorf("%s is --%s; want --%s", name, got, want)
		}
	}
}
