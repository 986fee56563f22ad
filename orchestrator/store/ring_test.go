package store

import (
	"fmt"
	"testing"
)

// TestRingNamesFewOrAll: what a batch rings for is bounded.
func TestRingNamesFewOrAll(t *testing.T) {
	t.Parallel()
	var r Ring
	for i := range maxNames {
		r.Add([]string{fmt.Sprint("agent", i), "agent0"})
	}
	if r.All || len(r.names) != maxNames {
		t.Errorf("%d names, everybody: %v", len(r.names), r.All)
	}
	if r.Add([]string{"another"}); !r.All {
		t.Error("one name too many does not ring for everybody")
	}
}
