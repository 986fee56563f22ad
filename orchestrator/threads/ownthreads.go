package threads

import (
	"context"
	"math"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// maxUnreadPosts bounds the counting of a thread's unread posts.
const maxUnreadPosts = 1000

// Overview is a thread in a list of threads, as one of its participants sees it.
type Overview struct {
	Thread Thread
	// Unread counts the posts of others since the agent last read the thread, without those of which it read a copy;
	// at most 1000.
	Unread int
	Last   []orchestrator.Message // the last post; empty if there is none
}

// threadsOf selects the threads of the agent ?1 with the status ?2, or with any status if ?2 is empty. The thread
// with the newest post comes first.
const threadsOf = `SELECT p.thread_id, p.read_seq, coalesce(
		(SELECT seq FROM agent_message m WHERE m.thread_id = p.thread_id AND m.recipient = '` +
	orchestrator.ThreadPrefix + `' || p.thread_id ORDER BY seq DESC LIMIT 1), 0)
	FROM thread_participants p JOIN threads t ON t.thread_id = p.thread_id
	WHERE p.agent = ?1 AND (?2 = '' OR t.status = ?2)
	ORDER BY 3 DESC, t.created_at DESC, p.thread_id DESC LIMIT +?3 OFFSET +?4`

// unreadIn counts the posts in the thread ?1 that are unread for the agent ?2, whose cursor is ?3.
const unreadIn = `SELECT count(*) FROM (SELECT 1 FROM agent_message m
	WHERE m.thread_id = ?1 AND m.seq > ?3 AND m.recipient = '` + orchestrator.ThreadPrefix + `' || ?1 AND m.sender <> ?2
	  AND NOT EXISTS (SELECT 1 FROM agent_message c WHERE c.multicast_id = m.multicast_id AND +c.recipient = ?2 AND c.read_at <> '')
	  AND NOT EXISTS (SELECT 1 FROM agent_message_archive c WHERE c.multicast_id = m.multicast_id AND +c.recipient = ?2)
	LIMIT +?4) AS p`

// postsOf selects the posts in the thread ?1 after the seq ?2, in order.
const postsOf = `SELECT 0, seq FROM agent_message WHERE thread_id = ?1 AND seq > ?2 AND recipient = '` +
	orchestrator.ThreadPrefix + `' || ?1
	UNION ALL
	SELECT 1, seq FROM agent_message_archive WHERE thread_id = ?1 AND seq > ?2 AND recipient = '` +
	orchestrator.ThreadPrefix + `' || ?1
	ORDER BY seq LIMIT +?3`

// newestPosts selects the posts in the thread ?1 before the seq ?2, the newest first.
const newestPosts = `SELECT 0, seq FROM agent_message WHERE thread_id = ?1 AND seq < ?2 AND recipient = '` +
	orchestrator.ThreadPrefix + `' || ?1
	UNION ALL
	SELECT 1, seq FROM agent_message_archive WHERE thread_id = ?1 AND seq < ?2 AND recipient = '` +
	orchestrator.ThreadPrefix + `' || ?1
	ORDER BY seq DESC LIMIT +?3`

// Own returns the threads in which an agent takes part, the one with the newest post first. It leaves out the first
// skip threads and returns at most limit. more reports whether there are others. The status "" selects open and
// closed threads. Nothing is marked as read.
func Own(ctx context.Context, l *ledger.Ledger, agent string, status Status, skip, limit int) (list []Overview,
	more bool, err error) {
	agent = orchestrator.FoldName(agent)
	err = l.Read(ctx, func(c *store.Conn) error {
		type place struct {
			id         string
			read, last int64
		}
		places, err := store.List(c, func(row store.Row) place { return place{row.Text(0), row.Int(1), row.Int(2)} },
			threadsOf, agent, string(status), limit+1, skip)
		if err != nil {
			return err
		}
		list, more = nil, len(places) > limit
		for _, p := range places[:min(limit, len(places))] {
			o, err := overview(c, p.id, agent, p.read, p.last)
			if err != nil {
				return err
			}
			list = append(list, o)
		}
		return nil
	})
	return list, more, err
}

func overview(c *store.Conn, id, agent string, read, last int64) (o Overview, err error) {
	if o.Thread, _, err = thread(c, id); err != nil {
		return o, err
	}
	unread, err := c.Number(unreadIn, id, agent, read, maxUnreadPosts)
	if err != nil {
		return o, err
	}
	o.Unread = int(unread)
	if last > 0 {
		o.Last, err = ledger.Messages(c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE seq = ?`, last)
	}
	return o, err
}

// ReadOptions specifies which posts of a thread Read returns, and to whom.
type ReadOptions struct {
	Thread string
	Agent  string // a participant; "" is the administrator, who has no cursor and reads from the beginning
	All    bool   // from the beginning, not from the first post that the agent has not read
	After  int64  // start after this position, see ReadPosts.Next; 0 is none
	Limit  int    // maximum number of posts; fewer if their payloads exceed 4 MiB together
	Peek   bool   // do not move the cursor
	Newest bool   // the newest posts, or with After the posts before that position; only for the administrator

	Lease messages.ReadingLease // only the Writer is used, see messages.MarkPostsRead

	// Fits returns how many of the posts, counted from the first, the reader takes; nil takes all.
	Fits func(posts []orchestrator.Message) int
}

// ReadPosts holds the posts that Read returns, oldest first.
type ReadPosts struct {
	Thread Thread
	Posts  []orchestrator.Message // for reading.Written, or for reading.Unread if they cannot be shown
	More   bool
	Next   int64 // position of the last post, or of the first one if Newest was set
}

// Read returns posts of a thread and marks them as read by the agent: it moves the agent's cursor in the thread past
// them. The messages by which mentions reach the agent are not affected: Wait still returns them. Error: not_found,
// also for an agent that does not take part.
func Read(ctx context.Context, l *ledger.Ledger, o ReadOptions) (read ReadPosts, err error) {
	o.Agent = orchestrator.FoldName(o.Agent)
	if o.Agent != "" {
		if _, err := messages.EndDeadReaders(ctx, l, o.Agent); err != nil {
			return read, err
		}
	}
	err = l.Read(ctx, func(c *store.Conn) error {
		th, found, err := thread(c, o.Thread)
		if err != nil {
			return err
		}
		if !found || o.Agent != "" && !th.Has(o.Agent) {
			return noThread(o.Thread)
		}
		after := o.After
		if o.Agent != "" && !o.All && o.After == 0 {
			if after, err = c.Number(`SELECT read_seq FROM thread_participants WHERE thread_id = ? AND agent = ?`,
				th.ID, o.Agent); err != nil {
				return err
			}
		}
		read = ReadPosts{Thread: th, Next: after}
		if o.Newest {
			if after == 0 {
				after = math.MaxInt64
			}
			read.Posts, read.More, err = ledger.Fetch(c, newestPosts, o.Limit, ledger.MaxRead, th.ID, after, o.Limit+1)
		} else {
			read.Posts, read.More, err = ledger.Fetch(c, postsOf, o.Limit, ledger.MaxRead, th.ID, after, o.Limit+1)
		}
		if o.Fits != nil && err == nil {
			n := o.Fits(read.Posts)
			read.Posts, read.More = read.Posts[:n], read.More || n < len(read.Posts)
		}
		if o.Newest {
			slices.Reverse(read.Posts)
		}
		return err
	})
	if err != nil || len(read.Posts) == 0 {
		return read, err
	}
	read.Next = read.Posts[len(read.Posts)-1].Seq
	if o.Newest {
		read.Next = read.Posts[0].Seq
	}
	if o.Peek || o.Agent == "" {
		return read, nil
	}
	err = l.Write(ctx, store.Of(o.Agent), func(t *ledger.Tx) error {
		if err := messages.MarkPostsRead(t, o.Agent, read.Posts, &o.Lease); err != nil {
			return err
		}
		t.Heartbeat(o.Agent)
		return nil
	})
	return read, err
}

// noThread returns the error for an id that no thread has, or only a thread in which the requester does not take
// part.
func noThread(id string) error {
	return orchestrator.Errorf(orchestrator.NotFound, "there is no thread %q that you take part in",
		orchestrator.Clip(id)).WithHint("To list your threads, run `mailroom thread list`. To join another thread, ask one of its participants to add you")
}

// Rename gives a thread another name. orchestrator.SystemSender posts the notice to inform the participants; the
// notice mentions nobody. renamed is false if the thread already had the name. Errors: invalid_params for an invalid
// name; those of AddParticipant.
func Rename(ctx context.Context, l *ledger.Ledger, c Change, name string, notice Notice) (th Thread, renamed bool,
	err error) {
	if err := checkThreadName(name); err != nil {
		return th, false, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if th, err = openThread(t, &c); err != nil {
			return err
		}
		if renamed = th.Name != name; !renamed {
			return nil
		}
		t.KeepSpan()
		if err := t.Run(`UPDATE threads SET name = ? WHERE thread_id = ?`, name, th.ID); err != nil {
			return err
		}
		if err := postNotice(t, &th, &notice, nil); err != nil {
			return err
		}
		th.Name = name
		t.Heartbeat(orchestrator.FoldName(c.By))
		return nil
	})
	return th, renamed, err
}
