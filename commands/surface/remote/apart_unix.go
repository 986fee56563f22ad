//go:build unix

package remote

import (
	"os/exec"
	"syscall"
)

// apart has a command run without the terminal.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
