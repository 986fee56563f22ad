package helper

import "testing"

// Long skips a test with -short, as `make test` runs it. `make test-long` runs it and, if it is one of an agent host, `make test-hosts`.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("only `make test-long` and `make test-hosts` run it")
	}
}
