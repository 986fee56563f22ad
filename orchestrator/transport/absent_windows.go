package transport

import (
	"context"
	"errors"

	"mailroom/orchestrator"
)

// Exec, JSONL and Dir run commands and write files of Linux and macOS. Windows does not have them: an agent with such a
// transport is on another machine, which delivers to it.
type (
	Exec  struct{ absent }
	JSONL struct{ absent }
	Dir   struct{ absent }
)

// absent is a transport that this system does not have.
type absent struct{}

var errAbsent = errors.New("this transport is not available on Windows; add the agent on Linux or macOS, or use the inbox transport")

// Check refuses every address.
func (absent) Check(string) (string, error) { return "", errAbsent }

// IsRooted reports true: a file and a command are on one machine.
func (absent) IsRooted(string) bool { return true }

// MaxBatch is 1.
func (absent) MaxBatch() int { return 1 }

// Deliver delivers nothing.
func (absent) Deliver(_ context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	for i := range errs {
		errs[i] = errAbsent
	}
	return errs
}
