package overview_test

import (
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
)

// The list begins with disabled agents and those with the most waiting messages, has pages, and includes what waits
// for each agent. Recent messages are counted in both directions.
func TestRoster(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	f.Add(agents.Update{Name: "d", Role: new("Reviews")})
	f.Send("a", "c")
	f.Deliver()
	f.Send("a", "b")
	last := f.Send("b", "d")
	f.Send("a", "b")
	if _, err := messages.Cancel(t.Context(), f.Ledger, last, "b"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := agents.Disable(t.Context(), f.Ledger, agents.Disabling{Agent: "d"}); err != nil {
		t.Fatal(err)
	}
	roster := func(r overview.StandingFilter) (names string, list []overview.Standing, total int) {
		t.Helper()
		list, total, err := overview.Standings(t.Context(), f.Ledger, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			names += s.Name + " "
		}
		return names, list, total
	}
	names, list, total := roster(overview.StandingFilter{Waiting: true, Backlog: true, Limit: 3})
	want.Equal(t, "the first", names, "d b c ")
	want.Equal(t, "total", total, 6)
	want.Equal(t, "pending", list[1].Backlog.Pending, 2)
	want.Equal(t, "unread", list[2].Backlog.Unread, 1)
	if b := list[2].Backlog; b.UnreadSince == "" || b.Oldest() != b.UnreadSince {
		t.Errorf("%+v", b)
	}
	names, _, _ = roster(overview.StandingFilter{Waiting: true, Skip: 3, Limit: 2})
	want.Equal(t, "the next", names, "a operator ")
	names, _, _ = roster(overview.StandingFilter{Skip: 10})
	want.Equal(t, "behind the end", names, "")
	names, _, total = roster(overview.StandingFilter{Search: "rEVIEW"})
	want.Equal(t, "found", names, "d ")
	want.Equal(t, "found in all", total, 1)

	lately, err := messages.LatelyOf(t.Context(), f.Ledger, "b")
	if err != nil || len(lately.Senders) != 1 || len(lately.Recipients) != 1 || len(lately.Newest) != 3 {
		t.Fatalf("%+v, %v", lately, err)
	}
	want.Equal(t, "from a", lately.Senders[0].Messages, 2)
	want.Equal(t, "to d", lately.Recipients[0].Agent, "d")
	want.Equal(t, "the newest", lately.Newest[1].Status, orchestrator.Cancelled)
}
