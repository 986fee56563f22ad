package orchestrator

import (
	"log/slog"
	"strings"
	"testing"
)

// chanWriter hands every line that is logged to a test.
type chanWriter chan string

func (w chanWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func TestGoSafeLogsAPanicWithItsStack(t *testing.T) {
	t.Parallel()
	lines := make(chanWriter, 1)
	GoSafe("worker of a test", slog.New(slog.NewTextHandler(lines, nil)), func() { panic("no such luck") })
	line := <-lines
	for _, want := range []string{"worker of a test", "no such luck", "goroutine_test.go"} {
		if !strings.Contains(line, want) {
			t.Errorf("the log does not mention %q: %s", want, line)
		}
	}
}
