package messages

import (
	"context"
	"fmt"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// HistoryFilter selects messages for History, including archived ones. At least one of ThreadID, Sender and Target
// must be set, because these have indexes. ThreadID must be set if Party is set.
type HistoryFilter struct {
	ThreadID string
	Sender   string
	Own      bool   // only messages of the present Sender, not of a removed agent; not with Party
	Target   string // recipient, or the group that the sender addressed
	Type     string
	Status   orchestrator.Status
	// created at or after; RFC 3339, a form that AdoptTime accepts, or a time span before now such as 1h; "" means no
	// bound
	Since       string
	Until       string // created at or before
	Party       string // if set, only messages that this agent sent or received
	Posts       bool   // with Party: also all posts in the thread
	From        int64  // only messages after the one with this seq, in the order of the answer; 0 means all
	Limit       int    // maximum number of messages; fewer if their payloads exceed 4 MiB together
	OldestFirst bool
}

// History returns messages in the order of sending, newest first unless OldestFirst is set. more reports whether
// there are others. A post appears once in the history of its thread, without the copies for the agents that it
// mentions; Copies returns those. History does not mark messages as read. Error: invalid_params for a time that
// cannot be read.
func History(ctx context.Context, l *ledger.Ledger, f HistoryFilter) (ms []orchestrator.Message, more bool, err error) {
	since, err := boundary(l, "since", f.Since)
	if err != nil {
		return nil, false, err
	}
	until, err := boundary(l, "until", f.Until)
	if err != nil {
		return nil, false, err
	}
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		args := []any{f.ThreadID, f.Sender, f.Target, f.Type, f.Status, since, until, f.Limit + 1}
		switch {
		case f.Party != "":
			args = append(args, f.Party, conf.Former(f.Party), conf.Since(f.Party))
		case f.Own:
			args = append(args, conf.Former(f.Sender))
		}
		from := ""
		if f.From != 0 {
			args = append(args, f.From)
			from = fmt.Sprint("?", len(args))
		}
		ms, more, err = ledger.Fetch(c, f.query(from), f.Limit, ledger.MaxRead, args...)
		return err
	})
	return ms, more, err
}

// query returns a SELECT of the places of the messages, newest first unless OldestFirst is set. Its parameters are
// those of History. from is the parameter that holds From, or "" if there is none.
func (f *HistoryFilter) query(from string) string {
	order, behind := "DESC", " AND +seq < "
	if f.OldestFirst {
		order, behind = "ASC", " AND +seq > "
	}
	// A condition that the filter does not use must be absent, because SQLite chooses the index by the conditions
	// present.
	where := "WHERE (?4 = '' OR message_type = ?4) AND (?5 = '' OR status = ?5) AND (?6 = '' OR created_at >= ?6) AND (?7 = '' OR created_at <= ?7)"
	if f.ThreadID != "" {
		where += " AND thread_id = ?1"
	}
	switch {
	case f.Sender != "" && f.ThreadID != "":
		where += " AND +sender = ?2" // a thread has fewer messages than a sender
	case f.Sender != "":
		where += " AND sender = ?2"
	}
	if f.Target != "" {
		where += " AND (recipient = ?3 OR multicast_target = ?3)"
	}
	posted := ""
	if f.Posts {
		posted = " OR +recipient = '" + orchestrator.ThreadPrefix + "' || ?1"
	}
	if f.Party != "" { // within a thread, which has fewer messages than an agent
		where += " AND (+sender = ?9 AND +seq > ?10 OR +recipient = ?9 AND " + ledger.GotAs("?10", "?11") + posted + ")"
	}
	if f.Own {
		where += " AND +seq > ?9"
	}
	if from != "" {
		where += behind + from
	}
	if f.showsPosts() {
		where += " AND NOT " + copyOfPost
	}
	present := `SELECT 0, seq FROM agent_message m ` + where
	if f.Sender != "" && f.ThreadID == "" { // live messages have no index by sender, which keeps sends fast
		present = `SELECT 0, seq FROM agent_message m INDEXED BY agent_message_live ` + where + ` AND ` + ledger.Live +
			`
		UNION ALL
		SELECT 0, seq FROM agent_message m INDEXED BY agent_message_past ` + where + ` AND ` + ledger.Past
	}
	return present + `
		UNION ALL
		SELECT 1, seq FROM agent_message_archive m ` + where + `
		ORDER BY seq ` + order + ` LIMIT +?8`
}

// copyOfPost is the condition for rows, of either table as m, that carry a post to the agents that it mentions,
// provided that the thread's own row of the post still exists.
const copyOfPost = `(m.multicast_target = '` + orchestrator.ThreadPrefix +
	`' || m.thread_id AND m.message_id <> m.multicast_id
	AND (EXISTS (SELECT 1 FROM agent_message p WHERE p.message_id = m.multicast_id)
	  OR EXISTS (SELECT 1 FROM agent_message_archive p WHERE p.message_id = m.multicast_id)))`

// showsPosts reports whether the filter selects the thread's own row of each post whose copies it selects.
func (f *HistoryFilter) showsPosts() bool {
	return f.ThreadID != "" && f.Target == "" && (f.Party == "" || f.Posts) &&
		(f.Status == "" || f.Status == orchestrator.Delivered)
}

// Copies returns, for each message that is a post, the messages that carry the post to the agents that it mentions,
// in the order of sending. For any other message it returns none.
func Copies(ctx context.Context, l *ledger.Ledger, ms []orchestrator.Message) ([][]orchestrator.Message, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (copies [][]orchestrator.Message, err error) {
		copies = make([][]orchestrator.Message, len(ms))
		for i := range ms {
			if !ms[i].IsPost() {
				continue
			}
			if copies[i], err = sentTogether(c, ms[i].ID); err != nil {
				return nil, err
			}
			copies[i] = slices.DeleteFunc(copies[i], func(m orchestrator.Message) bool { return m.ID == ms[i].ID })
		}
		return copies, nil
	})
}

// boundary parses a time of a filter, which may also be a time span before now.
func boundary(l *ledger.Ledger, name, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if at, ok := ledger.AdoptTime(text); ok {
		return at, nil
	}
	if ago, err := orchestrator.ParseDuration(text); err == nil {
		return orchestrator.Stamp(l.Now().Add(-ago)), nil
	}
	return "", orchestrator.InvalidParam(name, "%q is not a valid time", orchestrator.Clip(text)).
		WithHint("Use a time such as 2025-10-26T10:30:00Z, or a time span before now, such as 90s, 30m, 2h, or 7d")
}

// Receipts returns the receipts of each message, in the same order.
func Receipts(ctx context.Context, l *ledger.Ledger, ms []orchestrator.Message) ([][]Receipt, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (list [][]Receipt, err error) {
		list = make([][]Receipt, len(ms))
		for i := range ms {
			if list[i], err = ReceiptsOf(c, &ms[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	})
}
