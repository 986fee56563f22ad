package delivery_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestClaimsAreBoundedByBytes checks that a claim of several messages is also limited by their bytes; a large message
// is a claim of its own.
func TestClaimsAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Batch = 100
	var sizes []int
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		sizes = append(sizes, len(a.Messages))
		return make([]error, len(a.Messages))
	})
	megabyte := func(d *orchestrator.Draft) { d.Payload = []byte(`"` + strings.Repeat("x", 1<<20-2) + `"`) }
	for range 6 {
		f.Send("a", "b", megabyte)
	}
	for range 3 {
		f.Send("a", "b")
	}
	want.Equal(t, "delivered", f.Deliver().Delivered, 9)
	if !slices.Equal(sizes, []int{4, 5}) {
		t.Errorf("claims of %v messages", sizes)
	}
}
