//go:build leaving

package standing

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestLeavesAProcess hangs, and leaves a process in a separate process group that holds the test's output open.
func TestLeavesAProcess(t *testing.T) {
	left := exec.Command("sleep", "20")
	left.Stdout, left.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setpgid: true}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	select {}
}
