package overview

import (
	"context"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Attempts counts what came of deliveries, in messages: an attempt with ten messages counts ten.
type Attempts struct {
	Delivered int64
	Failed    int64 // attempts that failed, for whatever reason
	GivenUp   int64 // messages that became dead letters
	Last      int64 // the last row of message_trace that was looked at; 0 is none
}

// AttemptsAfter counts what this process did after a row of message_trace, the Last of the count before. A negative one
// counts nothing and only says where the trace ends. It reads each row of the trace once, by its key, so that it may be
// asked often. A Last that is smaller than after comes from a database that was restored meanwhile; nothing is counted then.
func AttemptsAfter(ctx context.Context, l *ledger.Ledger, after int64) (a Attempts, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		if a.Last, err = c.Number(`SELECT coalesce(max(id), 0) FROM message_trace`); err != nil || after < 0 || a.Last <= after {
			return err
		}
		return c.Query(`SELECT event, count(*) FROM message_trace WHERE id > ? AND actor = ? GROUP BY event`, func(row store.Row) error {
			switch tracing.EventName(row.Text(0)) {
			case tracing.Delivered:
				a.Delivered = row.Int(1)
			case tracing.AttemptFailed:
				a.Failed = row.Int(1)
			case tracing.Failed:
				a.GivenUp = row.Int(1)
			}
			return nil
		}, after, l.Instance())
	})
	return a, err
}
