//go:build !linux

package sqlite_test

import "testing"

func mountReadOnly(t *testing.T, dir string) {
	t.Helper()
	t.Fatalf("the superuser ignores the permissions of %s; run the tests as another user", dir)
}
