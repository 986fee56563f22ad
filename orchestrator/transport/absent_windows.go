package transport

import (
	"context"
	"errors"

	"mailroom/orchestrator"
)

// Exec, JSONL and Dir run commands and write files on Linux and macOS only. On Windows they deliver nothing: an
// agent with such a transport belongs to another machine, which delivers to it.
type (
	Exec  struct{ absent }
	JSONL struct{ absent }
	Dir   struct{ absent }
)

// absent is a transport that is not available on this system.
type absent struct{}

var errAbsent = errors.New("this transport is not available on Windows; add the agent on Linux or macOS, or use the inbox transport")

// Check refuses every address.
func (absent) Check(string) (string, error) { return "", errAbsent }

// IsRooted returns true: a file and a command are on one machine.
func (absent) IsRooted(string) bool { return true }

// MaxBatch returns 1.
func (absent) MaxBatch() int { return 1 }

// Deliver fails for every message.
func (absent) Deliver(_ context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	for i := range errs {
		errs[i] = errAbsent
	}
	return errs
}
