package transport_test

import (
	"fmt"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// helperProcesses are what a test starts as a process of its own. They print what they are doing, line by line.
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

// say tells the test what the helper does. It is written at once: a kill loses nothing of it.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
