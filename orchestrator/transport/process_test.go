package transport_test

import (
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// TestHelperProcess is what another process does for a test.
func TestHelperProcess(t *testing.T) {
	helper.Run(t, map[string]helper.Function{
		"courier":      runCourier,
		"narrow":       runNarrow,
		"poster":       runPoster,
		"reader":       runReader,
		"unprivileged": runUnprivileged,
		"append":       runAppend,
		"runner":       runRunner,
		"leaver":       runLeaver,
	})
}
