package cli

import (
	"errors"
	"os"
	"os/exec"
	ossignal "os/signal"

	urfave "github.com/urfave/cli/v2"
	"golang.org/x/sys/windows"

	"mailroom/orchestrator"
)

// become runs a program and returns its exit status, since Windows cannot replace a process. Ctrl-C goes to the
// program, and this process exits after it.
func become(program string, args []string) error {
	ossignal.Notify(make(chan os.Signal, 1), os.Interrupt)
	cmd := exec.Command(program, args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit(ended.ExitCode())
	}
	if err != nil {
		return orchestrator.Errorf(orchestrator.Unavailable, "cannot start %s: %v", program, err)
	}
	return nil
}

// isClosedPipe reports whether a write failed because the reader has gone.
func isClosedPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}

// serve returns an error, because the daemon requires processes, sockets and files as on Unix.
func (p *Program) serve(*urfave.Context) error {
	return orchestrator.Errorf(orchestrator.InvalidParams, "the daemon does not run on Windows").
		WithHint("Run `mailroom serve` on Linux or macOS, with the same PostgreSQL database")
}
