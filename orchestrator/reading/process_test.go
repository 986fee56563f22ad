package reading_test

import (
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// TestHelperProcess is what another process does for a test.
func TestHelperProcess(t *testing.T) {
	helper.Run(t, map[string]helper.Function{"wait": helpWait, "live": helpLive})
}
