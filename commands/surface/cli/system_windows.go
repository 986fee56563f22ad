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

// become runs a program in the place of this process, since Windows replaces none, and returns its exit status. Ctrl-C is
// the program's: this process ends with it.
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

// isClosedPipe reports whether a write failed since nobody reads what is written.
func isClosedPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}

// serve refuses: what the daemon does with processes, sockets and files is not there on Windows.
func (p *Program) serve(*urfave.Context) error {
	return orchestrator.Errorf(orchestrator.InvalidParams, "the daemon does not run on Windows").
		WithHint("Run `mailroom serve` on Linux or macOS, with the same PostgreSQL database")
}
