package retention_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/teams"
)

const week = 7 * 24 * time.Hour

// TestClosingChangesOneRow checks that closing a thread changes one row, however many posts it has, and that
// retention moves the posts a week later, in batches.
func TestClosingChangesOneRow(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	th, open := f.Thread("a", "b"), f.Thread("a", "b")
	f.MustPost(th.ID, "a")
	f.MustPost(open.ID, "a")
	f.SQL(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
		INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status, created_at,
			delivered_at, thread_id)
		SELECT 'p' || i, sender, recipient, payload, status, traced_status, created_at, delivered_at, thread_id
			FROM agent_message, n WHERE thread_id = ?`, th.ID)
	allow := f.Forbid("UPDATE", "agent_message", `true`, "closing changes a message")
	f.CloseThread(th.ID)
	allow()
	f.Clock.Advance(week)
	want.Equal(t, "cleared a week after the close", f.Clear(retention.ClearOptions{}).Deleted, 0)
	f.Clock.Advance(time.Millisecond)
	var done, total int64
	cleared := f.Clear(retention.ClearOptions{Progress: func(d, of int64) { done, total = d, of }})
	want.Equal(t, "cleared a moment later", cleared.Deleted, 1201)
	want.Equal(t, "of them delivered", cleared.Statuses[orchestrator.Delivered], 1201)
	want.Equal(t, "progress", fmt.Sprint(done, " of ", total), "1201 of 1201")
	want.Rows(t, f.Rows(`SELECT thread_id, count(*), max(CASE ended_at WHEN delivered_at THEN 1 ELSE 0 END)
		FROM agent_message_archive GROUP BY thread_id`), th.ID+" 1201 1")
	want.Rows(t, f.Rows(`SELECT DISTINCT thread_id FROM agent_message`), open.ID)
}

// TestPostsWithoutATimeGo checks that a hand-written post without a time is archived with its thread like any other.
func TestPostsWithoutATimeGo(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	th := f.Thread("a", "b")
	f.MustPost(th.ID, "a")
	f.SQL(`UPDATE agent_message SET created_at = '', delivered_at = ''`)
	f.CloseThread(th.ID)
	f.Clock.Advance(week + time.Millisecond)
	var total int64
	want.Equal(t, "cleared", f.Clear(retention.ClearOptions{Progress: func(_, of int64) { total = of }}).Deleted, 1)
	want.Equal(t, "announced", total, 1)
	want.Equal(t, "posts", f.Count("agent_message"), "0")
}

// TestThreadsGoWithTheirPosts checks that a closed thread and its participants are deleted with its last post. An
// open thread stays.
func TestThreadsGoWithTheirPosts(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	posted, empty, open := f.Thread("a", "b"), f.Thread("a", "b"), f.Thread("a", "b")
	f.MustPost(posted.ID, "a", "b")
	f.Take("b")
	f.CloseThread(posted.ID)
	f.CloseThread(empty.ID)
	f.Clock.Advance(week)
	f.Clear(retention.ClearOptions{})
	want.Equal(t, "threads after a week", f.Count("threads"), "3")
	f.Clock.Advance(time.Millisecond)
	f.Clear(retention.ClearOptions{})
	want.Rows(t, f.Rows(`SELECT thread_id FROM threads ORDER BY thread_id`), posted.ID, open.ID)
	want.Rows(t, f.Rows(`SELECT DISTINCT thread_id FROM thread_participants ORDER BY thread_id`), posted.ID, open.ID)
	f.Clock.Advance(90*24*time.Hour + time.Millisecond)
	f.Clear(retention.ClearOptions{})
	want.Rows(t, f.Rows(`SELECT thread_id FROM threads`), open.ID)
	want.Equal(t, "participants", f.Count("thread_participants"), "2")
}

// TestRequestsGo checks that answered requests are deleted a week after their answer, and others with their message.
func TestRequestsGo(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	answered := f.MustAsk(orchestrator.PlanApproval, "dev", "lead")
	waiting := f.MustAsk(orchestrator.PlanApproval, "tester", "lead")
	cancelled := f.MustAsk(orchestrator.PlanApproval, "outsider", "lead")
	if _, err := messages.Cancel(t.Context(), f.Ledger, cancelled.MessageID, ""); err != nil {
		t.Fatal(err)
	}
	f.Take("lead")
	f.Clock.Advance(time.Hour)
	if _, err := f.Reply(f.Engine, orchestrator.PlanApproval, answered.RequestID, true, "lead", "dev"); err != nil {
		t.Fatal(err)
	}
	f.Take("dev")
	f.Clock.Advance(week - time.Hour + time.Millisecond)
	f.Clear(retention.ClearOptions{})
	want.Rows(t, f.Rows(`SELECT request_id FROM team_requests ORDER BY request_id`), answered.RequestID,
		waiting.RequestID)
	f.Clock.Advance(time.Hour)
	f.Clear(retention.ClearOptions{})
	want.Rows(t, f.Rows(`SELECT request_id FROM team_requests`), waiting.RequestID)
	if _, err := f.Reply(f.Engine, orchestrator.PlanApproval, waiting.RequestID, true, "lead", "tester"); err != nil {
		t.Errorf("an old request that is open still: %v", err)
	}
	f.Clock.Advance(98 * 24 * time.Hour)
	f.Clear(retention.ClearOptions{})
	want.Equal(t, "requests", f.Count("team_requests"), "0")
}

// TestPresencesGo checks that the presences of a session without activity for a week are deleted, also by a run that
// clears everything that has ended. A session with an open thread, with active members, or with activity within the
// week stays.
func TestPresencesGo(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	join := func(session, agent string) {
		t.Helper()
		if _, err := agents.Join(t.Context(), f.Ledger, agents.Joining{Session: session, Agent: agent}); err != nil {
			t.Fatal(err)
		}
	}
	left := func() []string { return f.Rows(`SELECT session_id, agent FROM presence ORDER BY session_id, agent`) }
	for _, session := range []string{"busy", "gone", "read", enginetest.Room} {
		join(session, "a")
		join(session, "b")
	}
	th := f.Thread("a", "b") // in the session room
	for range 9 {
		f.Clock.Advance(24*time.Hour + time.Millisecond)
		join("busy", "a") // changes only the time of the presence
		if err := teams.TakePart(t.Context(), f.Ledger, agents.Joining{Session: "read", Agent: "b"},
			false); err != nil {
			t.Fatal(err)
		}
	}
	f.Clear(retention.ClearOptions{OlderThan: time.Millisecond})
	want.Rows(t, left(), "busy a", "busy b", "read a", "read b", "room a", "room b")
	f.CloseThread(th.ID)
	f.Clear(retention.ClearOptions{OlderThan: time.Millisecond})
	f.Clock.Advance(week)
	f.Clear(retention.ClearOptions{})
	want.Rows(t, left(), "busy a", "busy b", "read a", "read b", "room a", "room b")
	f.Clock.Advance(24 * time.Hour) // one more day, because presence is recorded to the day
	f.Clear(retention.ClearOptions{})
	want.Rows(t, left(), "busy a", "busy b", "read a", "read b")
	f.Clock.Advance(time.Millisecond)
	f.Clear(retention.ClearOptions{})
	want.Rows(t, left())
}

// TestPresencesOfTheLastDaysStay checks that recent sessions stay, however young the messages are that a run clears.
func TestPresencesOfTheLastDaysStay(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	if _, err := agents.Join(t.Context(), f.Ledger, agents.Joining{Session: "s", Agent: "a"}); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(week)
	f.Clear(retention.ClearOptions{OlderThan: time.Millisecond})
	want.Rows(t, f.Rows(`SELECT session_id, agent FROM presence`), "s a")
	f.Clock.Advance(24*time.Hour + time.Millisecond)
	f.Clear(retention.ClearOptions{OlderThan: time.Millisecond})
	want.Rows(t, f.Rows(`SELECT session_id, agent FROM presence`))
}

// TestTokensGo checks that tokens are deleted a week after their end, whatever ended them.
func TestTokensGo(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	for _, c := range []struct {
		agent    string
		lifetime time.Duration
	}{{"a", 0}, {"b", 0}, {"b", time.Hour}} {
		if _, _, err := agents.IssueToken(t.Context(), f.Ledger, c.agent, false, c.lifetime); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := agents.RevokeTokens(t.Context(), f.Ledger, "a"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		left  string
	}{{week, "3"}, {time.Millisecond, "2"}, {time.Hour - time.Millisecond, "2"}, {time.Millisecond, "1"},
		{100 * week, "1"}} {
		f.Clock.Advance(step.after)
		f.Clear(retention.ClearOptions{})
		want.Equal(t, "tokens", f.Count("tokens"), step.left)
	}
}

// TestClearingBesideGoesInBatches checks that more rows than one batch are deleted, and that a cancelled run begins
// no further batch.
func TestClearingBesideGoesInBatches(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.SQL(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1300)
		INSERT INTO tokens (hash, agent, created_at, expires_at) SELECT 'token ' || i, 'a', '2025-01-01', '2025-01-02'
			FROM n`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := retention.ClearOld(ctx, f.Ledger, retention.ClearOptions{}); err == nil {
		t.Error("a run that was called off says nothing of it")
	}
	want.Equal(t, "tokens", f.Count("tokens"), "1300")
	f.Clear(retention.ClearOptions{})
	want.Equal(t, "tokens", f.Count("tokens"), "0")
}

// TestRemovingTheLastParticipantClosesAThread checks that a thread is closed when its last participant is removed, so
// that its posts age. A thread with other participants stays open.
func TestRemovingTheLastParticipantClosesAThread(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	alone, both := f.Thread("a"), f.Thread("a", "b")
	f.MustPost(alone.ID, "a")
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT thread_id, status, closed_at <> '' FROM threads ORDER BY thread_id`),
		alone.ID+" closed 1", both.ID+" open 0")
	f.Clock.Advance(week + time.Millisecond)
	want.Equal(t, "its posts", f.Clear(retention.ClearOptions{}).Deleted, 1)
}
