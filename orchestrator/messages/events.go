package messages

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Event is one event in the life of a message: a row of message_trace with the message's sender, recipient and
// thread.
type Event struct {
	ID        int64  `json:"id"`
	MessageID string `json:"message_id"`
	At        string `json:"at"`
	Event     string `json:"event"`
	OldStatus string `json:"old_status,omitempty"`
	NewStatus string `json:"new_status,omitempty"`
	Attempt   int64  `json:"attempt,omitempty"`
	Error     string `json:"error,omitempty"`
	Sender    string `json:"sender,omitempty"` // "" once the message is deleted
	Recipient string `json:"recipient,omitempty"`
	ThreadID  string `json:"thread_id,omitempty"`
	Seq       int64  `json:"seq,omitempty"` // seq of the message: its place in the order of sending
}

// Cursor is a position in the stream of events, after one event and before the next. The zero value is the position
// before the first event. The text of a cursor has a meaning only for the database that issued it. Clients return the
// text unchanged.
type Cursor struct {
	id int64 // of the event before the position
}

func (c Cursor) String() string { return strconv.FormatInt(c.id, 10) }

// Cursor returns the position after an event.
func (e *Event) Cursor() Cursor { return Cursor{e.ID} }

// CursorOf returns the cursor for a text. Error: invalid_params if the text is not a cursor, or refers to an event
// that does not exist yet, as the cursor of another database may.
func CursorOf(ctx context.Context, l *ledger.Ledger, text string) (Cursor, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return Cursor{},
			orchestrator.Errorf(orchestrator.InvalidParams, "%q is not a valid event ID", orchestrator.Clip(text)).
				WithHint("Send the ID of the last event that you have seen, 0 for all events, or no ID for only new events")
	}
	newest, err := newestID(ctx, l)
	if err == nil && id > newest {
		err = orchestrator.Errorf(orchestrator.InvalidParams,
			"event %d does not exist (the newest event is %d): the ID belongs to another database", id, newest).
			WithHint("Start again without an ID")
	}
	return Cursor{id}, err
}

// LastEvent returns the position after the newest settled event. No event can appear before a settled one, see
// store.SettledIn.
func LastEvent(ctx context.Context, l *ledger.Ledger) (Cursor, error) {
	settled, err := store.SettledIn(ctx, l.Store)
	if err != nil {
		return Cursor{}, err
	}
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (Cursor, error) {
		newest, err := c.Number(`SELECT coalesce(max(id), 0) FROM message_trace WHERE id <= ?1`, settled.Events)
		return Cursor{newest}, err
	})
}

// DelayedBy returns a description of the transaction that prevents the events after a position from being shown,
// because it has been open since before they were written. It returns "" if there is none.
func DelayedBy(ctx context.Context, l *ledger.Ledger, at Cursor) (string, error) {
	settled, err := store.SettledIn(ctx, l.Store)
	if err != nil || settled.Holder == "" {
		return "", err
	}
	newest, err := newestID(ctx, l)
	if err != nil || newest <= max(at.id, settled.Events) {
		return "", err
	}
	return settled.Holder, nil
}

// newestID returns the id of the newest visible event. Other events may still appear before it.
func newestID(ctx context.Context, l *ledger.Ledger) (int64, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (int64, error) {
		return c.Number(`SELECT coalesce(max(id), 0)
		FROM message_trace`)
	})
}

// Behind returns the number of events between other and c, or slightly more, because ids may be skipped.
func (c Cursor) Behind(other Cursor) int64 { return c.id - other.id }

// Before returns the position n events before c, or slightly fewer.
func (c Cursor) Before(n int64) Cursor { return Cursor{max(0, c.id-n)} }

// LastEvents returns the newest events, oldest first, and the position after them. It returns at most n events, and
// at most 1000. For one agent, see Events, it examines only the newest 10,000 events.
func LastEvents(ctx context.Context, l *ledger.Ledger, concerning string, n int64) (list []Event, next Cursor,
	err error) {
	if n == 0 {
		next, err = LastEvent(ctx, l)
		return nil, next, err
	}
	look := n
	if concerning != "" {
		look = 10_000
	}
	settled, err := store.SettledIn(ctx, l.Store)
	if err != nil {
		return nil, next, err
	}
	from, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (Cursor, error) {
		id, err := c.Number(`SELECT coalesce((SELECT id FROM message_trace WHERE id > 0 AND id <= ?1 ORDER BY id DESC
			LIMIT 1 OFFSET +?2), 0)`, settled.Events, look)
		return Cursor{id}, err
	})
	if err != nil {
		return nil, from, err
	}
	list, next, _, err = Events(ctx, l, from, concerning, int(look))
	return list[max(0, len(list)-int(n)):], next, err
}

// EventsSince returns the position before the first event at or after a time. HistoryFilter describes the forms of
// the time. It searches by id: ids ascend with time, except where a clock was set back. Error: invalid_params for a
// time that cannot be read.
func EventsSince(ctx context.Context, l *ledger.Ledger, since string) (Cursor, error) {
	at, err := boundary(l, "since", since)
	if err != nil {
		return Cursor{}, err
	}
	newest, err := LastEvent(ctx, l)
	if err != nil {
		return Cursor{}, err
	}
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (Cursor, error) {
		before, behind := int64(0), newest.id // the position is between the two
		for before < behind {
			middle := before + (behind-before)/2
			earlier := int64(0) // first event after middle, if it is before the time
			err := c.Query(`SELECT id, at FROM message_trace WHERE id > ?1 ORDER BY id LIMIT 1`, func(row store.Row) error {
				if row.Text(1) < at {
					earlier = row.Int(0)
				}
				return nil
			}, middle)
			if err != nil {
				return Cursor{}, err
			}
			if earlier > 0 {
				before = min(earlier, behind)
			} else {
				behind = middle
			}
		}
		return Cursor{before}, nil
	})
}

// Events returns the events after a position in the stream, oldest first. It examines at most limit events and
// returns those of messages that the agent concerning sent or received, or all if concerning is "". next is the
// position after the examined events. more reports whether there may already be further events. Events stops before
// events that are not settled, see store.SettledIn, so that no event is ever skipped and the events of one message
// come in order.
func Events(ctx context.Context, l *ledger.Ledger, after Cursor, concerning string, limit int) (list []Event,
	next Cursor, more bool, err error) {
	settled, err := store.SettledIn(ctx, l.Store)
	if err != nil {
		return nil, after, false, err
	}
	seen := 0
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		list, next, seen = nil, after, 0
		return c.Query(`
			SELECT t.id, t.message_id, t.at, t.event, t.old_status, t.new_status, t.attempt, t.error,
			       coalesce(m.sender, a.sender, ''), coalesce(m.recipient, a.recipient, ''),
			       	coalesce(m.thread_id, a.thread_id, ''),
			       coalesce(m.seq, a.seq, 0), coalesce(m.ended_at, a.ended_at, '')
			FROM message_trace t
			LEFT JOIN agent_message m ON m.message_id = t.message_id
			LEFT JOIN agent_message_archive a ON m.message_id IS NULL AND a.message_id = t.message_id
			WHERE t.id > ?1 AND t.id <= ?2 ORDER BY t.id LIMIT +?3`, func(row store.Row) error {
			e := Event{
				ID: row.Int(0), MessageID: row.Text(1), At: row.Text(2), Event: row.Text(3), OldStatus: row.Text(4),
				NewStatus: row.Text(5), Attempt: row.Int(6), Error: row.Text(7), Sender: row.Text(8),
				Recipient: row.Text(9), ThreadID: row.Text(10), Seq: row.Int(11),
			}
			next = e.Cursor()
			seen++
			m := orchestrator.Message{Sender: e.Sender, Recipient: e.Recipient, Seq: e.Seq, EndedAt: row.Text(12)}
			if concerning == "" || conf.Owns(&m, concerning) {
				list = append(list, e)
			}
			return nil
		}, after.id, settled.Events, limit)
	})
	return list, next, seen == limit, err
}

// NoteDeleted records in the trace that messages are about to be deleted, with their senders and recipients. from is
// the text after FROM in a SELECT of the messages: a table and a condition.
func NoteDeleted(t *ledger.Tx, from string) error {
	return tracing.RecordDeleted(t, from, t.Event(tracing.Deleted, ""))
}

// Deleted returns what the trace has kept of a message that retention deleted, and the time of the deletion. If the
// message was not deleted, m has only its ID, and at is "".
func Deleted(c *store.Conn, id string) (m orchestrator.Message, at string, err error) {
	m.ID = id
	err = c.Query(`SELECT at, old_status, error, detail FROM message_trace WHERE message_id = ? AND event = 'deleted'
		ORDER BY id DESC LIMIT 1`,
		func(row store.Row) error {
			at, m.Status, m.Error = row.Text(0), orchestrator.Status(row.Text(1)), row.Text(2)
			var kept struct {
				Sender    string `json:"sender"`
				Recipient string `json:"recipient"`
				Type      string `json:"message_type"`
			}
			_ = json.Unmarshal([]byte(row.Text(3)), &kept) // events of earlier versions contain no more
			m.Sender, m.Recipient, m.Type = kept.Sender, kept.Recipient, kept.Type
			return nil
		}, id)
	return m, at, err
}

// Receipt is the evidence that something happened to a message: what, when, and the column that proves it. Receipts
// exist only for certain facts. Source: dialects.md, "All of them".
type Receipt struct {
	What     string `json:"what"` // created, delivered, shown (not yet confirmed), read, acknowledged, answered
	At       string `json:"at"`
	Evidence string `json:"evidence"`
}

// ReceiptsOf returns the receipts of one message within a transaction.
func ReceiptsOf(c *store.Conn, m *orchestrator.Message) ([]Receipt, error) {
	list := []Receipt{}
	add := func(what, at, evidence string) {
		if at != "" {
			list = append(list, Receipt{what, at, evidence})
		}
	}
	add("created", m.CreatedAt, "agent_message.created_at")
	add("delivered", m.DeliveredAt, "agent_message.delivered_at")
	lease, err := LeaseOf(c, m)
	if err != nil {
		return nil, err
	}
	if lease != nil && !lease.Unwritten() {
		add("shown", lease.At, "reading_lease.shown_at")
	}
	if !m.IsOwnCopy() {
		add("read", m.ReadAt, "agent_message.read_at")
	}
	add("acknowledged", m.AcknowledgedAt, "agent_message.acknowledged_at")
	var by any = m.Recipient
	if m.IsPost() {
		by = nil // any participant may have answered the post itself
	}
	err = c.Query(`
		SELECT message_id, created_at FROM agent_message WHERE reply_to IN (?1, ?3) AND (sender = ?2 OR ?2 IS NULL)
		UNION ALL SELECT message_id, created_at FROM agent_message_archive WHERE reply_to IN (?1, ?3)
			AND (sender = ?2 OR ?2 IS NULL)
		ORDER BY 2 LIMIT 1`, func(row store.Row) error {
		add("answered", row.Text(1), "reply_to of "+row.Text(0))
		return nil
	}, m.ID, by, cmp.Or(m.MulticastID, m.ID))
	return list, err
}
