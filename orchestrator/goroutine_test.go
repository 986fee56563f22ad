package orchestrator

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// chanWriter sends every logged line to a test.
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

// TestBackground checks that stop ends the context and waits for the function, and that it returns even if the
// function ended before, also by a panic, or if stop is called again.
func TestBackground(t *testing.T) {
	t.Parallel()
	ended := false
	stop := Background(t.Context(), "waits", slog.New(slog.DiscardHandler), func(ctx context.Context) {
		<-ctx.Done()
		ended = true
	})
	stop()
	if !ended {
		t.Error("stop returned before the end")
	}
	stop()
	Background(t.Context(), "panics", slog.New(slog.DiscardHandler), func(context.Context) { panic("no such luck") })()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	Background(over, "is over", slog.New(slog.DiscardHandler), func(ctx context.Context) { <-ctx.Done() })()
}
