package orchestratortest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk mounts a separate disk of mib MiB until the test ends, and returns its folder. A test that needs one must
// call SmallDisk first. Only the superuser may mount, so for any other user the test is run again in a process that
// is the superuser of its own namespace, and this run ends with the same result. Without such namespaces the test is
// skipped, except in CI, where it fails.
func SmallDisk(t *testing.T, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		runAsSuperuser(t)
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Fatalf("no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// runAsSuperuser runs this test in a process that can mount for itself, and ends the test.
func runAsSuperuser(t *testing.T) {
	t.Helper()
	names := strings.Split(regexp.QuoteMeta(t.Name()), "/")
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.Join(names, "$/^")+"$", "-test.v",
		fmt.Sprintf("-test.short=%t", testing.Short()))
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := again.CombinedOutput()
	_, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		t.Skip("it passed in a process that is the superuser of a namespace of its own")
	case !ran && os.Getenv("CI") == "":
		t.Skipf("no small disk can be mounted without being the superuser: %v", err)
	default:
		t.Fatalf("in a namespace of its own: %v\n%s", err, out)
	}
}
