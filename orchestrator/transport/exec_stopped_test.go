package transport_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/transport"
)

// A command is ended when its agent has approved to be shut down. The request has arrived then; what else it was about is
// tried later, which is no failure.
func TestExecOfAnAgentThatStops(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	database, line := filepath.Join(folder, "mailroom.db"), filepath.Join(folder, "line")
	must(t, unix.Mkfifo(line, 0o600))
	request := note("m1", "1")
	request.Type = orchestrator.ShutdownRequest
	result := make(chan []error, 1)
	go func() {
		result <- transport.Exec{Grace: time.Hour}.Deliver(t.Context(), orchestrator.Attempt{
			Recipient: "builder", Folder: folder, Database: database, Address: `echo ready > line; sleep 1000`,
			Messages: []orchestrator.Message{request, note("m2", "2")},
		})
	}()
	_, err := os.ReadFile(line)
	must(t, err)
	if ended := program.EndAll(program.KeyOf(database, "builder"), program.ErrStopped); len(ended) != 1 {
		t.Fatalf("%d commands were ended", len(ended))
	}
	errs := <-result
	if errs[0] != nil || !errors.Is(errs[1], orchestrator.ErrTryLater) {
		t.Errorf("%v", errs)
	}
}
