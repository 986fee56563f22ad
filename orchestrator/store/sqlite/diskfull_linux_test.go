package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
)

// A full disk gives a clear error and leaves no partial writes. Reads continue, and writes continue when there is
// space again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := orchestratortest.SmallDisk(t, 2)
	r := enginetest.Open(t, filepath.Join(dir, "mailroom.db"))
	for _, name := range []string{"a", "b"} {
		if _, _, err := agents.Add(t.Context(), r.Ledger, agents.Update{Name: name}); err != nil {
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
		_, failure = messages.Send(t.Context(), r.Ledger,
			orchestrator.Draft{Sender: "a", Recipient: "b", Payload: payload})
	}
	sent--
	want.Code(t, failure, orchestrator.Unavailable)
	if !strings.Contains(failure.Error(), "full") {
		t.Errorf("the error does not say what is wrong: %v", failure)
	}
	backlog, err := delivery.Poll(t.Context(), r.Ledger, "b", 1000)
	if err != nil {
		t.Fatalf("polling on a full disk: %v", err)
	}
	want.Equal(t, "messages on the full disk", backlog.Pending, sent)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := messages.Send(t.Context(), r.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b"}); err != nil {
		t.Errorf("with room again: %v", err)
	}
	for _, f := range overview.Doctor(t.Context(), r.Ledger, overview.DoctorOptions{}) {
		if f.Code == "integrity" && f.Level != "ok" {
			t.Errorf("integrity: %s", f.Says)
		}
	}
}
