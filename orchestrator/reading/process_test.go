package reading_test

import (
	"bufio"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// TestHelperProcess is the entry point of other processes that tests start.
func TestHelperProcess(t *testing.T) {
	helper.Run(map[string]func(path string, in *bufio.Scanner){"wait": helpWait, "live": helpLive})
}
