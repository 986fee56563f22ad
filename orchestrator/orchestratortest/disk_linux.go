package orchestratortest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk mounts a disk of its own, of so many MiB, until the test ends, and returns its folder. Only the superuser
// may do that: elsewhere the test is left out, but never in CI.
func SmallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib))
	if err == nil {
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		return dir
	}
	if os.Getenv("CI") != "" || os.Geteuid() == 0 {
		t.Fatalf("no small disk can be mounted: %v", err)
	}
	t.Skipf("no small disk can be mounted without being the superuser: %v", err)
	return ""
}
