// Package want compares the results of a test with the expected values, in the forms that most tests need.
package want

import (
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// Code ends the test unless err has the code.
func Code(t *testing.T, err error, code orchestrator.Code) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %s", code)
	}
	if got := orchestrator.CodeOf(err); got != code {
		t.Fatalf("code %s (%v); want %s", got, err, code)
	}
}

// Equal fails the test unless got equals want.
func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v; want %v", what, got, want)
	}
}

// Rows fails the test unless the rows of a query equal want, in this order.
func Rows(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d rows %q; want %q", len(got), got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("row %d: got %q; want %q", i, got[i], want[i])
		}
	}
}

// Lines fails the test unless the lines equal want in any order, because each recipient is delivered to
// independently. It sorts both slices.
func Lines(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// IDs fails the test unless the messages have these IDs, in this order.
func IDs(t *testing.T, ms []orchestrator.Message, ids ...string) {
	t.Helper()
	got := make([]string, len(ms))
	for i := range ms {
		got[i] = ms[i].ID
	}
	Rows(t, got, ids...)
}
