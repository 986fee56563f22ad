package torture

import (
	"os"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/history"
)

// TestInsert inserts a report twice into the document that `make torture REPORT=1` changes.
func TestInsert(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	r := Report{Seed: 1}
	r.Counts = map[string]int{"sends": 1234}
	r.Violations = []history.Violation{{Check: "sends", Text: "msg-1 is lost"}}
	first, err := Insert(string(document), r.Markdown())
	if err != nil {
		t.Fatal(err)
	}
	second, err := Insert(first, r.Markdown())
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Error("a second report does not replace the first")
	}
	if !strings.Contains(second, "| 1,234 | 1 |") || !r.Failed() {
		t.Errorf("the report does not say what was violated:\n%s", r.Markdown())
	}
	if _, err := Insert("no markers", "report"); err == nil {
		t.Error("a document without markers is taken")
	}
}
