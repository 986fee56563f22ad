package reading_test

import (
	"bufio"
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
)

// helpLive lives until it is killed.
func helpLive(_ string, in *bufio.Scanner) { in.Scan() }

// TestDeadAreLookedForOnceASecond checks that a router looks for leases of dead processes once a second, and at once
// after the clock was set back.
func TestDeadAreLookedForOnceASecond(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	step := func(after time.Duration, looks bool) {
		t.Helper()
		id, reader := f.Send("a", "b"), helper.Start(t, "live", "")
		ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{
			Recipient: "b", Limit: 1, Lease: messages.ReadingLease{For: time.Hour, Reader: process.Of(reader.ID())},
		})
		if err != nil {
			t.Fatal(err)
		}
		want.IDs(t, ms, id)
		reader.Kill()
		f.Clock.Advance(after)
		f.Deliver()
		leased := "1"
		if looks {
			leased = "0"
		}
		want.Equal(t, fmt.Sprintf("leases of the dead %s after the last look", after),
			f.Rows(`SELECT count(*) FROM reading_lease`)[0], leased)
		f.SQL(`DELETE FROM reading_lease`)
		f.TakeFor("b", 0)
	}
	f.Deliver()
	step(0, false)
	step(time.Second-1, false)
	step(1, true)
	step(time.Second, true)
	step(-time.Hour, true)
	step(0, false)
}
