package reading_test

import (
	"bufio"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// TestHelperProcess runs the other process of a test.
func TestHelperProcess(t *testing.T) {
	helper.Run(map[string]func(path string, in *bufio.Scanner){"wait": helpWait, "live": helpLive})
}
