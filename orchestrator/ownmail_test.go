package orchestrator_test

import (
	"testing"

	"mailroom/orchestrator"
)

// An agent sees what it sent and got, in the table or in the archive, and posts of its threads; for others it does not exist.
func TestOwnMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c", "d")
	note := f.send("a", "b")
	th := f.thread("a", "b", "c")
	post := f.mustPost(th.ID, "a", "b").MessageID
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		for _, c := range []struct {
			id, agent string
			copies    int
			seen      bool
		}{
			{note, "a", 0, true}, {note, "B", 0, true}, {note, "c", 0, false}, {note, "", 0, true}, {"msg-none", "", 0, false},
			{post, "a", 1, true}, {post, "b", 1, true}, {post, "c", 0, true}, {post, "d", 0, false}, {post, "", 1, true},
		} {
			view, err := f.OwnMessage(t.Context(), c.id, c.agent)
			if !c.seen {
				wantCode(t, err, orchestrator.NotFound)
				continue
			}
			if err != nil || view.Message.ID != c.id || len(view.Copies) != c.copies || len(view.Receipts) == 0 {
				t.Errorf("%s: %s for %q: %+v, %v", table, c.id, c.agent, view, err)
			}
			want(t, "thread", view.Thread.ID, view.Message.ThreadID)
		}
		f.sql(`INSERT INTO agent_message_archive SELECT message_id, sender, recipient, message_type, payload, status, created_at, delivered_at,
			retry_count, max_retries, error_message, seq, traced_status, next_attempt_at, review_at, expires_at, ended_at, ttl_seconds,
			priority, held, summary, context, action, thread_id, session_id, reply_to, hops, multicast_id, multicast_target,
			idempotency_key, read_at, acknowledged_at, lease_token, lease_until, lease_owner, crashes, delivery_marks, trace_id, span_id,
			created_at, origin, not_before FROM agent_message WHERE NOT EXISTS (SELECT 1 FROM agent_message_archive)`)
		f.sql(`DELETE FROM agent_message`)
	}
	want(t, "unread", f.count(`agent_message_archive WHERE read_at = ''`), "3")
}
