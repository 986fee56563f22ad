package helper

import "testing"

// Long skips a test if -short is set, as in `make test`. `make test-long` runs it. So do `make test-hosts` for tests
// of agent hosts, and `make test-postgres` for tests of servers.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("`make test` leaves it to `make test-long`")
	}
}

// Times returns how often a test repeats a step: n times, or an eighth of that with -short.
func Times(n int) int {
	if testing.Short() {
		return (n + 7) / 8
	}
	return n
}
