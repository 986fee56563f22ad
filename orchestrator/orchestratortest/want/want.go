// Package want compares what a test got with what it wants, for what most tests compare.
package want

import (
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// Code ends the test unless err carries the code.
func Code(t *testing.T, err error, code orchestrator.Code) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %s", code)
	}
	if got := orchestrator.CodeOf(err); got != code {
		t.Fatalf("code %s (%v); want %s", got, err, code)
	}
}

// Equal fails the test unless got is want.
func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v; want %v", what, got, want)
	}
}

// Rows fails the test unless the rows of a query are those, in this order.
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

// Lines fails the test unless the lines are those, in any order: each recipient is delivered to by itself. It sorts
// both.
func Lines(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// IDs fails the test unless the messages are those, in this order.
func IDs(t *testing.T, ms []orchestrator.Message, ids ...string) {
	t.Helper()
	got := make([]string, len(ms))
	for i := range ms {
		got[i] = ms[i].ID
	}
	Rows(t, got, ids...)
}
