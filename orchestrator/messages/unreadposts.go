package messages

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// UnreadPosts is the end of a SELECT, from FROM on, that selects, as agent_message m, the posts that the agent ?1 has
// not read: posts of others, newer than the agent's cursor in the thread, without a copy that reaches the agent as a
// message. Archived posts count as read. So does the notice that a thread was closed, because all participants except
// the one who closed it have a copy. The CROSS JOIN keeps SQLite from walking through all posts.
const UnreadPosts = ` FROM thread_participants p CROSS JOIN agent_message m ON m.thread_id = p.thread_id
	WHERE p.agent = ?1 AND m.seq > p.read_seq AND m.recipient = '` + orchestrator.ThreadPrefix +
	`' || p.thread_id AND m.sender <> ?1
	  AND NOT (m.sender = '` + orchestrator.SystemSender + `' AND
	    m.message_type IS NOT DISTINCT FROM '` + orchestrator.ThreadClosed + `')
	  AND NOT EXISTS (SELECT 1 FROM agent_message c WHERE c.multicast_id = m.multicast_id AND +c.recipient = ?1)
	  AND NOT EXISTS (SELECT 1 FROM agent_message_archive c WHERE c.multicast_id = m.multicast_id AND +c.recipient = ?1)`

// HasUnreadPosts reports whether the threads of an agent contain posts that the agent has not read.
func HasUnreadPosts(c *store.Conn, agent string) (bool, error) {
	n, err := c.Number(`SELECT EXISTS (SELECT 1`+UnreadPosts+`)`, agent)
	return n != 0, err
}

// MarkPostsRead moves an agent's cursors in the threads past the given posts. If l has a Writer that still has to
// write the answer, the first unread post of each thread is put under the lease. If the writer ends before, that post
// and all later ones are unread again, because a cursor has no gaps. They may include posts that another reader of
// the agent has received meanwhile: a post shown twice is better than a post never shown. MarkPostsRead also notes in
// each post the previous position of the cursor, for UnreadPost.
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

// unreadFrom makes a post, and all later posts in its thread, unread for an agent.
func unreadFrom(t *ledger.Tx, m *orchestrator.Message, agent string) error {
	return t.Run(`UPDATE thread_participants SET read_seq = ?1 WHERE thread_id = ?2 AND agent = ?3 AND read_seq > ?1`,
		m.Seq-1, m.ThreadID, agent)
}

// UnreadPost moves a cursor back to its position before a post was read, so that the post and all later ones are
// unread.
func UnreadPost(t *ledger.Tx, m *orchestrator.Message) error {
	return t.Run(`UPDATE thread_participants SET read_seq = ?1 WHERE thread_id = ?2 AND agent = ?3 AND read_seq > ?1`,
		m.ReadFrom, m.ThreadID, m.Reader)
}
