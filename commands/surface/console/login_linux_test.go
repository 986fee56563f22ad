package console_test

import (
	"testing"

	"mailroom/commands/surface/phone/browsertest"
)

// TestFirefoxLogsIn does what TestChromiumLogsIn does.
func TestFirefoxLogsIn(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	logsIn(ctx, t, browsertest.StartFirefox(ctx, t, browsertest.NewDesktop(ctx, t), browsertest.NewPushService(ctx, t)).NewPage())
}
