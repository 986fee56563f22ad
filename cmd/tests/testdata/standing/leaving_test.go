//go:build leaving

package standing

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestLeavesAProcess stands still, and leaves a process in a group of its own that has its output.
func TestLeavesAProcess(t *testing.T) {
	left := exec.Command("sleep", "20")
	left.Stdout, left.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setpgid: true}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	select {}
}
