package transport_test

import (
	"fmt"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// helperProcesses are run by tests as separate processes. They print their progress line by line.
var helperProcesses = map[string]func(t *testing.T, args []string){
	"courier":      runCourier,
	"narrow":       runNarrow,
	"poster":       runPoster,
	"reader":       runReader,
	"unprivileged": runUnprivileged,
	"append":       runAppend,
	"runner":       runRunner,
	"leaver":       runLeaver,
}

func TestHelperProcess(t *testing.T) { helper.RunTest(t, helperProcesses) }

// say prints the helper's progress. It writes at once, so that a kill loses nothing.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
