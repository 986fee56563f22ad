package orchestrator

import (
	"fmt"
	"testing"
)

// TestRingNamesFewOrAll: what a batch rings for is bounded.
func TestRingNamesFewOrAll(t *testing.T) {
	t.Parallel()
	var r Ring
	for i := range maxNames {
		r.add([]string{fmt.Sprint("agent", i), "agent0"})
	}
	if r.all || len(r.names) != maxNames {
		t.Errorf("%d names, everybody: %v", len(r.names), r.all)
	}
	if r.add([]string{"another"}); !r.all {
		t.Error("one name too many does not ring for everybody")
	}
}
