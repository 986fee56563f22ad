package orchestrator

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// helpWait waits for a, as b, until it is killed.
func helpWait(path string, _ *bufio.Scanner) {
	r, err := openPosting(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("waiting")
	_, _, err = r.Wait(context.Background(), WaitOptions{Recipient: "b", Limit: 1, Timeout: time.Hour, For: []string{"a"}})
	fmt.Println(err)
}

// TestKilledWaiterRefusesNobody: what a killed process leaves behind refuses nobody, and goes; as long as it lives, it
// counts.
func TestKilledWaiterRefusesNobody(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no lock tells whether a process lives; its wait counts until its timeout")
	}
	path := filepath.Join(t.TempDir(), "mailroom.db")
	r, err := openPosting(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, name := range []string{"a", "b"} {
		if _, _, err := r.AddAgent(t.Context(), AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	h := startHelper(t, "wait", path)
	if !h.out.Scan() || h.out.Text() != "waiting" {
		t.Fatalf("the helper said %q", h.out.Text())
	}
	waits := func() (n int64) {
		if err := r.read(t.Context(), func(c *Conn) error { n, err = c.number(`SELECT count(*) FROM waits`); return err }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for waits() == 0 {
	}
	if _, err := r.declareWait(t.Context(), &WaitOptions{Recipient: "a", Timeout: time.Hour}, []string{"b"}); CodeOf(err) != Conflict {
		t.Fatalf("beside a process that waits: %v", err)
	}
	h.cmd.Process.Kill()
	h.cmd.Wait()
	if n := waits(); n != 1 {
		t.Fatalf("the killed process left %d waits", n)
	}
	if _, err := r.declareWait(t.Context(), &WaitOptions{Recipient: "a", Timeout: time.Hour}, []string{"b"}); err != nil {
		t.Errorf("beside a process that was killed: %v", err)
	}
	if n := waits(); n != 1 {
		t.Errorf("%d waits are noted; want that of a", n)
	}
}
