package overview

import (
	"context"
	"encoding/json"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Story is all that is known about one message: its events, and the commands involved.
type Story struct {
	Message  orchestrator.Message `json:"message"`
	Gone     bool                 `json:"gone,omitempty"` // deleted by retention; only the trace is left
	Receipts []messages.Receipt   `json:"receipts"`
	Events   []StoryEvent         `json:"events"`
	// Commands are the commands involved and the sessions started for the message, ordered by start.
	Commands []CommandSpan `json:"commands"`
}

// StoryEvent is one event in the life of a message: a row of message_trace.
type StoryEvent struct {
	ID        int64  `json:"id"`
	At        string `json:"at"`
	Event     string `json:"event"`
	OldStatus string `json:"old_status,omitempty"`
	NewStatus string `json:"new_status,omitempty"`
	Attempt   int64  `json:"attempt,omitempty"`
	Actor     string `json:"actor,omitempty"`
	SpanID    string `json:"span_id,omitempty"`
	Error     string `json:"error,omitempty"`
	Detail    string `json:"detail,omitempty"` // what the transport reported about the attempt
}

// CommandSpan is one run of a command, as stored in command_trace.
type CommandSpan struct {
	TraceID       string          `json:"trace_id"`
	SpanID        string          `json:"span_id"`
	ParentSpanID  string          `json:"parent_span_id,omitempty"`
	Name          string          `json:"name"`
	Kind          string          `json:"kind"`
	StartedAt     string          `json:"started_at"`
	EndedAt       string          `json:"ended_at"`
	Status        string          `json:"status"`
	StatusMessage string          `json:"status_message,omitempty"`
	Actor         string          `json:"actor"`
	Caller        string          `json:"caller,omitempty"`
	Attributes    json.RawMessage `json:"attributes"`
}

// Trace returns the story of each message with an ID: several for a message sent to a group. It works even after
// retention has deleted the messages, as long as their trace is kept. Error: not_found.
func Trace(ctx context.Context, l *ledger.Ledger, id string) (stories []Story, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		stories = nil
		ms, err := messages.FindIn(c, id)
		if err != nil {
			return err
		}
		signal := len(ms) == 0
		if signal {
			if ms, err = signalNamed(c, id); err != nil {
				return err
			}
		}
		gone := len(ms) == 0
		if gone {
			m, _, err := messages.Deleted(c, id)
			if err != nil {
				return err
			}
			ms = []orchestrator.Message{m}
		}
		for _, m := range ms {
			s, err := story(c, m)
			if err != nil {
				return err
			}
			if signal && !gone && m.ID == id {
				if s.Receipts, err = signalReceipts(c, id); err != nil {
					return err
				}
			}
			s.Gone = gone
			stories = append(stories, s)
		}
		if gone && len(stories[0].Events) == 0 {
			return messages.NoMessage(id)
		}
		return nil
	})
	return stories, err
}

// OwnTrace returns the stories of Trace whose messages an agent sent or received. Error: not_found, also for messages
// between others.
func OwnTrace(ctx context.Context, l *ledger.Ledger, id, agent string) ([]Story, error) {
	stories, err := Trace(ctx, l, id)
	if err != nil {
		return nil, err
	}
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(stories, func(s Story) bool {
		m := s.Message
		if s.Gone {
			m.CreatedAt = s.Events[0].At
		}
		return !conf.Owns(&m, agent)
	})
	if len(own) == 0 {
		return nil, messages.NoMessage(id)
	}
	return own, nil
}

func story(c *store.Conn, m orchestrator.Message) (Story, error) {
	s := Story{Message: m}
	var err error
	s.Events, err = store.List(c, func(row store.Row) StoryEvent {
		return StoryEvent{
			ID: row.Int(0), At: row.Text(1), Event: row.Text(2), OldStatus: row.Text(3), NewStatus: row.Text(4),
			Attempt: row.Int(5), Actor: row.Text(6), SpanID: row.Text(7), Error: row.Text(8), Detail: row.Text(9),
		}
	}, `SELECT id, at, event, old_status, new_status, attempt, actor, span_id, error, detail
		FROM message_trace WHERE message_id = ? ORDER BY id`, m.ID)
	if err != nil {
		return s, err
	}
	s.Commands, err = store.List(c, func(row store.Row) CommandSpan {
		return CommandSpan{
			TraceID: row.Text(0), SpanID: row.Text(1), ParentSpanID: row.Text(2), Name: row.Text(3), Kind: row.Text(4),
			StartedAt: row.Text(5), EndedAt: row.Text(6), Status: row.Text(7), StatusMessage: row.Text(8),
			Actor: row.Text(9), Caller: row.Text(10), Attributes: json.RawMessage(row.Text(11)),
		}
	}, `
		SELECT trace_id, span_id, parent_span_id, name, kind, started_at, ended_at, status, status_message, actor,
			caller, attributes
		FROM command_trace WHERE span_id IN (SELECT span_id FROM message_trace WHERE message_id = ?1 AND span_id <> '')
		   OR trace_id = ?2 AND name LIKE '`+sessions.StartSpan+`%' AND json_extract(attributes, '$."`+
		tracing.AttrMessageID+`"') = ?1
		ORDER BY id`, m.ID, m.TraceID)
	if err != nil {
		return s, err
	}
	s.Receipts, err = messages.ReceiptsOf(c, &m)
	return s, err
}
