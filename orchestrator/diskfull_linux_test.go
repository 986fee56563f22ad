package orchestrator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
)

// A full disk gives a clear error and half writes nothing; reading goes on; and when there is room again, so does the
// rest.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := orchestratortest.SmallDisk(t, 2)
	r := openAt(t, filepath.Join(dir, "mailroom.db"))
	for _, name := range []string{"a", "b"} {
		if _, _, err := r.AddAgent(t.Context(), orchestrator.AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 200<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	payload := []byte(`"` + strings.Repeat("x", 20_000) + `"`)
	var sent int
	var failure error
	for ; failure == nil; sent++ {
		if sent > 1000 {
			t.Fatal("the disk never fills")
		}
		_, failure = r.Send(t.Context(), orchestrator.Draft{Sender: "a", Recipient: "b", Payload: payload})
	}
	sent--
	wantCode(t, failure, orchestrator.Unavailable)
	if !strings.Contains(failure.Error(), "full") {
		t.Errorf("the error does not say what is wrong: %v", failure)
	}
	backlog, err := r.Poll(t.Context(), "b", 1000)
	if err != nil {
		t.Fatalf("polling on a full disk: %v", err)
	}
	want(t, "messages on the full disk", backlog.Pending, sent)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Send(t.Context(), orchestrator.Draft{Sender: "a", Recipient: "b"}); err != nil {
		t.Errorf("with room again: %v", err)
	}
	for _, f := range r.Doctor(t.Context(), false) {
		if f.Check == "integrity" && f.Level != "ok" {
			t.Errorf("integrity: %s", f.Says)
		}
	}
}
