package sqlite_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

// mountReadOnly mounts a folder read-only onto itself until the test ends.
func mountReadOnly(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("the superuser ignores permissions, and %s cannot be mounted read-only: %v; run the tests as another user", dir, err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}
