package letters

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// Placed is a message that was delivered as a file into a folder and that its recipient has not yet acknowledged.
type Placed struct {
	ID   string
	Mark string // note that its transport stored with it

	table string
	seq   int64
	marks string
}

// placedPage is the maximum number of messages in one page of EachPlaced.
const placedPage = 500

// EachPlaced calls f with the messages that were delivered to an agent through target (such as dir:ROOT) and are
// not acknowledged, in the order of sending, archived messages last. f gets them in pages of some hundreds and may
// take its time, because no transaction is open meanwhile. If f returns an error, EachPlaced stops and returns that
// error.
func EachPlaced(ctx context.Context, l *ledger.Ledger, agent, target string, f func(page []Placed) error) error {
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		for after, more := int64(math.MinInt64), true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			var page []Placed
			n := 0
			err := l.Look(ctx, func(c *store.Conn) error {
				return c.Query(`SELECT seq, message_id, delivery_marks FROM `+table+`
					WHERE `+placedUnacknowledged+` AND recipient = ? AND seq > ? ORDER BY seq LIMIT +?`,
					func(row store.Row) error {
						p := Placed{table: table, seq: row.Int(0), ID: row.Text(1), marks: row.Text(2)}
						n, after = n+1, p.seq
						marks := delivery.MarksOf((&orchestrator.Message{Marks: p.marks}))
						if p.Mark = marks[target]; p.Mark != "" && len(marks) == 1 {
							// Skipped if another transport may have delivered the message instead.
							page = append(page, p)
						}
						return nil
					}, agent, after, placedPage)
			})
			if err != nil {
				return err
			}
			if more = n == placedPage; len(page) > 0 {
				if err := f(page); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// AcknowledgeRemoved acknowledges messages whose files their recipient has removed from its folder, and returns
// their number. It skips a message that has changed since EachPlaced found it.
func AcknowledgeRemoved(ctx context.Context, l *ledger.Ledger, list []Placed) (acknowledged int, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		acknowledged = 0
		for _, p := range list {
			columns := ledger.MessageColumns
			if p.table == "agent_message_archive" {
				columns = ledger.ArchivedColumns
			}
			ms, err := ledger.Messages(t.Conn, `SELECT `+columns+` FROM `+p.table+` WHERE `+placedUnacknowledged+
				` AND seq = ? AND delivery_marks = ?`, p.seq, p.marks)
			if err != nil {
				return err
			}
			for i := range ms {
				if err := messages.AcknowledgeIn(t, &ms[i], "its file was removed"); err != nil {
					return err
				}
				acknowledged++
			}
		}
		return nil
	})
	return acknowledged, err
}

// MovePlaced records that the file of a message which was delivered through target is now elsewhere. It replaces
// the note was by mark, also for other targets of the same transport. It changes nothing if the note is no longer
// was, or if the message is acknowledged. Errors: those of the database.
func MovePlaced(ctx context.Context, l *ledger.Ledger, id, target, was, mark string) error {
	scheme, _, _ := strings.Cut(target, ":")
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		m, found, err := ledger.MessageWithID(t.Conn, id)
		if err != nil || !found || m.Status != orchestrator.Delivered || m.AcknowledgedAt != "" ||
			MarkOf(&m, target) != was {
			return err
		}
		marks := delivery.MarksOf(&m)
		maps.DeleteFunc(marks, func(other, _ string) bool { return strings.HasPrefix(other, scheme+":") })
		marks[target] = mark
		text, err := json.Marshal(marks)
		if err != nil {
			return err
		}
		return t.Run(`UPDATE `+ledger.Table(&m)+` SET delivery_marks = ? WHERE message_id = ?`, string(text), id)
	})
}

// MarkOf returns the note that a transport stored with a message (see orchestrator.Attempt.Mark) when it delivered
// the message to target, or "" if there is none.
func MarkOf(m *orchestrator.Message, target string) string { return delivery.MarksOf(m)[target] }
