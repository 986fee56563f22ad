package router_test

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/reading"
)

// helpWait waits for a, as b, until it is killed.
func helpWait(path string, _ *bufio.Scanner) {
	r, err := openBare(path)
	if err == nil {
		_, _, err = reading.Wait(context.Background(), r.Ledger, reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour, For: []string{"a"}})
	}
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
	f := &fixture{Engine: openAt(t, path), t: t, path: path} // by the clock of the other process
	f.add(agents.Update{Name: "a"})
	f.add(agents.Update{Name: "b"})
	waiter := helper.Start(t, "wait", path)
	f.untilRows(short(t), countWaits, 1)
	if !f.refusesBeside("a", "b") {
		t.Fatal("not refused beside a process that waits")
	}
	waiter.Kill()
	wantRows(t, f.rows(`SELECT waiter, waits_for FROM waits`), "b a")
	if f.refusesBeside("a", "b") {
		t.Error("refused beside a process that was killed")
	}
	wantRows(t, f.rows(countWaits), "0")
}
