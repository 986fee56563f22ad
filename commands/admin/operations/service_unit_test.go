package operations

import (
	"slices"
	"testing"
)

// TestUnitWords checks that the command line of a unit is read as it was written, whatever characters a path has.
func TestUnitWords(t *testing.T) {
	t.Parallel()
	words := []string{`/opt/mail "room"/mailroom`, "serve", "--db", `/home/me/100% \of $it; 'all'/mailroom.db`, "--log-level", "info"}
	unit := ServiceUnit("Written by a test", "mailroom.service", "for a test", words)
	if got := unitWords(unit); !slices.Equal(got, words) {
		t.Errorf("got %q, want %q", got, words)
	}
	if got := servedBy(unit)["--db"]; got != words[3] {
		t.Errorf("got the database %q, want %q", got, words[3])
	}
	if got := servedBy("[Service]\nExecStart=/bin/true"); got != nil {
		t.Errorf("another program serves with %q", got)
	}
}
