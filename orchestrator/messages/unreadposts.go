package messages

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// UnreadPosts is the end of a SELECT, from FROM on, that selects, as agent_message m, the posts that the agent ?1 has
// not read: newer than its cursor in the thread, not its own, and without a copy that reaches it as a message. Archived
// posts count as read. So does the notice that a thread was closed: everybody has a copy but who closed it. It is a
// CROSS JOIN because SQLite would otherwise walk through all posts.
const UnreadPosts = ` FROM thread_participants p CROSS JOIN agent_message m ON m.thread_id = p.thread_id
	WHERE p.agent = ?1 AND m.seq > p.read_seq AND m.recipient = '` + orchestrator.ThreadPrefix +
	`' || p.thread_id AND m.sender <> ?1
	  AND NOT (m.sender = '` + orchestrator.SystemSender + `' AND
	    m.message_type IS NOT DISTINCT FROM '` + orchestrator.ThreadClosed + `')
	  AND NOT EXISTS (SELECT 1 FROM agent_message c WHERE c.multicast_id = m.multicast_id AND +c.recipient = ?1)
	  AND NOT EXISTS (SELECT 1 FROM agent_message_archive c WHERE c.multicast_id = m.multicast_id AND +c.recipient = ?1)`

// HasUnreadPosts reports whether there are posts in the threads of an agent that it has not read.
func HasUnreadPosts(c *store.Conn, agent string) (bool, error) {
	n, err := c.Number(`SELECT EXISTS (SELECT 1`+UnreadPosts+`)`, agent)
	return n != 0, err
}

// MarkPostsRead moves an agent's cursors in the threads behind the posts. Under a lease whose answer has yet to be
// written, the first post of each thread that was unread has the lease: if the writer ends before, that post is unread
// again, and with it all behind it, for a cursor has no gaps. That may be posts which another reader of the agent has
// had meanwhile: better one twice than one never. Without a lease each post has where the cursor was, for UnreadPost.
func MarkPostsRead(t *ledger.Tx, agent string, posts []orchestrator.Message, l *ReadingLease) error {
	cursors := map[string]int64{}
	err := t.Query(`SELECT thread_id, read_seq FROM thread_participants WHERE agent = ?`, func(row store.Row) error {
		cursors[row.Text(0)] = row.Int(1)
		return nil
	}, agent)
	if err != nil {
		return err
	}
	last := map[string]int64{}
	for i := range posts {
		m := &posts[i]
		m.Reader, m.ReadFrom = agent, cursors[m.ThreadID]
		if l.Writer.PID > 0 && last[m.ThreadID] <= m.ReadFrom && m.Seq > m.ReadFrom {
			if err := lend(t, m, agent, &ReadingLease{Holder: l.Holder, Writer: l.Writer}); err != nil {
				return err
			}
		}
		last[m.ThreadID] = m.Seq
	}
	for thread, seq := range last {
		if err := t.Run(`UPDATE thread_participants SET read_seq = ?1 WHERE thread_id = ?2 AND agent = ?3
			AND read_seq < ?1`, seq, thread, agent); err != nil {
			return err
		}
	}
	t.KeepSpan()
	return nil
}

// unreadFrom makes a post, and all that stand behind it in its thread, unread by an agent.
func unreadFrom(t *ledger.Tx, m *orchestrator.Message, agent string) error {
	return t.Run(`UPDATE thread_participants SET read_seq = ?1 WHERE thread_id = ?2 AND agent = ?3 AND read_seq > ?1`,
		m.Seq-1, m.ThreadID, agent)
}

// UnreadPost moves a cursor back to where it was before a post was read, so that the post and all behind it are unread.
func UnreadPost(t *ledger.Tx, m *orchestrator.Message) error {
	return t.Run(`UPDATE thread_participants SET read_seq = ?1 WHERE thread_id = ?2 AND agent = ?3 AND read_seq > ?1`,
		m.ReadFrom, m.ThreadID, m.Reader)
}
