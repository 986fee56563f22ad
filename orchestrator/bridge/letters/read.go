package letters

import (
	"context"
	"encoding/json"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// placedUnacknowledged selects messages that a transport outside the database has delivered and nobody has
// acknowledged. It is also the condition of an index. SQLite uses that index only if the text of the condition is
// identical.
const placedUnacknowledged = "status = 'delivered' AND acknowledged_at = '' AND delivery_marks <> ''"

// Request selects the letters that Read and Wait return: those that were delivered to an agent through a target and
// are not acknowledged.
type Request struct {
	Agent  string
	Target string // SCHEME:ADDRESS
	Limit  int    // maximum number of messages; fewer if their payloads exceed 4 MiB together
	Mark   bool   // record that the agent is alive, and return in Fresh the messages for Written

	Fits func(ms []orchestrator.Message) int // see reading.Options; nil accepts all
}

// Inbox is the result of Read and Wait.
type Inbox struct {
	Messages []orchestrator.Message // in reading order
	Fresh    []orchestrator.Message // with Mark: those that are unread, for Written
	More     bool                   // there are more messages
}

// Read returns the letters that an agent has not acknowledged. It returns them again until they are acknowledged.
// Errors: those of the database.
func Read(ctx context.Context, l *ledger.Ledger, r Request) (in Inbox, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		in, err = r.find(c, conf)
		return err
	})
	for i := range in.Messages {
		if r.Mark && in.Messages[i].ReadAt == "" {
			in.Fresh = append(in.Fresh, in.Messages[i])
		}
	}
	return in, err
}

// Written marks letters as read that were unread when Read returned them, because they were shown to the agent.
func Written(ctx context.Context, l *ledger.Ledger, agent string, fresh []orchestrator.Message) error {
	return l.WriteLazily(ctx, store.Of(agent), func(t *ledger.Tx) error {
		for i := range fresh {
			m := &fresh[i]
			unread, err := t.Number(`SELECT count(*) FROM `+ledger.Table(m)+
				` WHERE message_id = ? AND +recipient = ? AND read_at = ''`, m.ID, m.Recipient)
			if err == nil && unread > 0 {
				err = messages.MarkRead(t, m, t.Now, tracing.Read, "")
			}
			if err != nil {
				return err
			}
		}
		t.Heartbeat(agent)
		return nil
	})
}

// find selects the letters. It omits messages to a removed agent that had the same name, as Config.Got does.
func (r *Request) find(c *store.Conn, conf *ledger.Config) (in Inbox, err error) {
	key, err := json.Marshal(r.Target) // as AddMark writes it; within a note, its quotes are escaped
	if err != nil {
		return in, err
	}
	there := ` WHERE ` + placedUnacknowledged + ` AND recipient = ?1 AND instr(delivery_marks, ?3) > 0 AND ` +
		ledger.GotAs("?4", "?5")
	in.Messages, in.More, err = ledger.Fetch(c, `
		SELECT archived, seq FROM (
		    SELECT 0 AS archived, seq, priority, action FROM agent_message`+there+`
		    UNION ALL
		    SELECT 1, seq, priority, action FROM agent_message_archive`+there+`) AS m`+ledger.ReadingOrder+` LIMIT +?2`,
		r.Limit, ledger.MaxRead, r.Agent, r.Limit+1, string(key)+":", conf.Former(r.Agent), conf.Since(r.Agent))
	if r.Fits != nil && err == nil {
		n := r.Fits(in.Messages)
		in.Messages, in.More = in.Messages[:n], in.More || n < len(in.Messages)
	}
	return in, err
}

// lookAgain is the longest interval at which Wait checks, because deliveries that end in another process do not
// ring the bell.
const lookAgain = time.Second

// Wait delivers the messages that are due to the agent, and returns its letters, like Read, as soon as there are
// any. If the timeout ends first, it returns an empty Inbox and no error. With Mark, Wait also records that the
// agent is alive, whatever it finds. Errors: busy; context.Cause(ctx) if ctx ended.
func Wait(ctx context.Context, e *delivery.Engine, r Request, timeout time.Duration) (Inbox, error) {
	deadline := e.Now().Add(timeout)
	var rings <-chan bool
	var heard time.Time
	var silent time.Duration
	for {
		due, _, err := delivery.AnythingDue(ctx, e.Ledger)
		if err == nil && due {
			_, err = e.DeliverAll(ctx, delivery.Options{Recipient: r.Agent})
		}
		if err != nil {
			return Inbox{}, err
		}
		if in, err := Read(ctx, e.Ledger, r); err != nil || len(in.Messages) > 0 {
			return in, err
		}
		if now := e.Now(); now.Sub(heard) >= silent/2 {
			heard, silent = now, agents.Heartbeat(ctx, e.Ledger, r.Agent, r.Mark)
		}
		left := deadline.Sub(e.Now())
		if left <= 0 {
			return Inbox{}, nil
		}
		if rings == nil {
			var stop func()
			if rings, stop, err = e.Store.Bell().Listen(ctx, r.Agent); err != nil {
				return Inbox{}, err
			}
			defer stop()
			continue // a message may have come before the listener was registered
		}
		select {
		case <-rings:
		case <-time.After(min(left, lookAgain)):
		case <-ctx.Done():
			return Inbox{}, context.Cause(ctx)
		}
	}
}
