package helper

import "testing"

// Long skips a test with -short, as `make test` runs it. `make test-long` runs it; so does `make test-hosts` if it is
// one of an agent host, and `make test-postgres` if it is one of a server.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("`make test` leaves it to `make test-long`")
	}
}

// Times is how often a test repeats something: n times, with -short an eighth of them.
func Times(n int) int {
	if testing.Short() {
		return (n + 7) / 8
	}
	return n
}
