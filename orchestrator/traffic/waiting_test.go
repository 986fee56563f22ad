package traffic_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/traffic"
)

// TestWaiting checks that the report shows how many messages waited at the end of each interval, including messages
// that failed and were sent again.
func TestWaiting(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	f.Wire.Set(enginetest.Failing("down"))
	is := map[string]string{}
	note := func() {
		for _, name := range []string{"b", "w"} {
			n := f.Rows(`SELECT (SELECT count(*) FROM agent_message WHERE recipient = ?
				AND status IN ('pending','retry'))
				+ (SELECT count(*) FROM agent_inbox WHERE recipient = ? AND read_at = '')`, name, name)
			is[name] += n[0] + " "
		}
	}
	for i := range 12 {
		switch i {
		case 0, 3:
			f.Send("a", "w")
			f.Send("a", "b")
		case 6, 7:
			f.TakeFor("b", 0)
		case 8:
			f.Wire.Set(nil)
			if _, _, err := messages.ReplayAll(t.Context(), f.Ledger,
				messages.DeadLetterFilter{Recipient: "w", Limit: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if i != 8 {
			f.Deliver()
		}
		note()
		f.Clock.Advance(10 * time.Minute)
	}
	f.Clock.Advance(-10 * time.Minute)
	report, err := traffic.Of(t.Context(), f.Ledger,
		traffic.Query{Since: 110 * time.Minute, Every: 10 * time.Minute, Waiting: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range report.Waiting {
		got := ""
		for _, n := range w.Messages {
			got += fmt.Sprint(n, " ")
		}
		if w.Recipient != "a" { // the sender gets reports of the failures
			want.Equal(t, w.Recipient, got, is[w.Recipient])
		}
	}
	want.Equal(t, "recipients", len(report.Waiting), 3)
}
