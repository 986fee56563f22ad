package messages

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// UnreadPosts are the posts, as m, in the threads of the agent ?1, that are newer than the last that it read there, that it
// did not write, and of which it gets no copy. What retention has archived counts as read. The notice that a thread was closed
// is left out: everybody gets a copy of it but who closed the thread. CROSS, since SQLite would walk all posts there are.
const UnreadPosts = ` FROM thread_participants p CROSS JOIN agent_message m ON m.thread_id = p.thread_id
	WHERE p.agent = ?1 AND m.seq > p.read_seq AND m.recipient = '` + orchestrator.ThreadPrefix + `' || p.thread_id AND m.sender <> ?1
	  AND NOT (m.sender = '` + orchestrator.SystemSender + `' AND m.message_type IS '` + orchestrator.ThreadClosed + `')
	  AND NOT EXISTS (SELECT 1 FROM agent_message c WHERE c.multicast_id = m.multicast_id AND +c.recipient = ?1)
	  AND NOT EXISTS (SELECT 1 FROM agent_message_archive c WHERE c.multicast_id = m.multicast_id AND +c.recipient = ?1)`

// HasUnreadPosts reports whether somebody has posted in a thread of an agent what it has not read.
func HasUnreadPosts(c *store.Conn, agent string) (bool, error) {
	n, err := c.Number(`SELECT EXISTS (SELECT 1`+UnreadPosts+`)`, agent)
	return n != 0, err
}

// AnyUnreadPosts reports whether an agent has posts of threads that it has not read.
func AnyUnreadPosts(ctx context.Context, l *ledger.Ledger, agent string) (there bool, err error) {
	err = l.LookTables(ctx, func(c *store.Conn) error {
		there, err = HasUnreadPosts(c, agent)
		return err
	})
	return there, err
}

// MarkPostsRead moves an agent's cursors past the posts, and notes in them where the cursors were.
func MarkPostsRead(t *ledger.Tx, agent string, posts []orchestrator.Message) error {
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
		last[m.ThreadID] = m.Seq
	}
	for thread, seq := range last {
		if _, err := t.Exec(`UPDATE thread_participants SET read_seq = ?1 WHERE thread_id = ?2 AND agent = ?3 AND read_seq < ?1`, seq, thread, agent); err != nil {
			return err
		}
	}
	t.Traced = true
	return nil
}

// UnreadPost takes back that a post was read, with all behind it: a cursor knows no gaps. Better one twice than one never.
func UnreadPost(t *ledger.Tx, m *orchestrator.Message) error {
	_, err := t.Exec(`UPDATE thread_participants SET read_seq = ?1 WHERE thread_id = ?2 AND agent = ?3 AND read_seq > ?1`, m.ReadFrom, m.ThreadID, m.Reader)
	return err
}
