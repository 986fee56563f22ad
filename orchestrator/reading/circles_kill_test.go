package reading_test

import (
	"bufio"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// helpWait waits for a, as b, until it is killed.
func helpWait(path string, _ *bufio.Scanner) {
	r, err := enginetest.OpenInHelper(path)
	if err == nil {
		_, _, err = reading.Wait(context.Background(), r.Ledger,
			reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour, For: []string{"a"}})
	}
	fmt.Println(err)
}

// TestKilledWaiterRefusesNobody checks that the rows of a killed process refuse no waits and are deleted. While the
// process lives, its waits count.
func TestKilledWaiterRefusesNobody(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no lock tells whether a process lives; its wait counts until its timeout")
	}
	enginetest.OfAFile(t, "there nobody can tell whether a process lives; its wait counts until its timeout")
	path := enginetest.Place(t)
	f := &enginetest.Fixture{Engine: enginetest.Open(t, path), T: t, Path: path} // with the clock of the other process
	f.Add(agents.Update{Name: "a"})
	f.Add(agents.Update{Name: "b"})
	waiter := helper.Start(t, "wait", path)
	untilRows(f, enginetest.Deadline(t), countWaits, 1)
	if !refusesBeside(f, "a", "b") {
		t.Fatal("not refused beside a process that waits")
	}
	waiter.Kill()
	want.Rows(t, f.Rows(`SELECT waiter, waits_for FROM waits`), "b a")
	if refusesBeside(f, "a", "b") {
		t.Error("refused beside a process that was killed")
	}
	want.Rows(t, f.Rows(countWaits), "0")
}
