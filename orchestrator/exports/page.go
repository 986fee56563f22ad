package exports

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
	"mailroom/tracing/otlp"
)

// page holds the spans of one request, and the cursor after them.
type page struct {
	commands, events []json.RawMessage
	bytes            int
	first            string // id of the first span
	more             bool   // there may already be more to send
	after            cursor
}

func (p *page) size() int { return len(p.commands) + len(p.events) }

// next returns how long to wait before the next page.
func (p *page) next() time.Duration {
	if p.more {
		return 0
	}
	return lookEvery
}

func (p *page) scopes(version string) []otlp.Spans {
	return []otlp.Spans{
		{Scope: otlp.Scope{Name: "mailroom/commands", Version: version}, List: p.commands},
		{Scope: otlp.Scope{Name: "mailroom/messages", Version: version}, List: p.events},
	}
}

// add adds a span to a list of the page, and reports whether the page had room.
func (p *page) add(list *[]json.RawMessage, s *otlp.Span) (bool, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	if p.size() > 0 && p.bytes+len(text) > maxBytes {
		p.more = true
		return false, nil
	}
	if p.size() == 0 {
		p.first = s.SpanID
	}
	p.bytes += len(text)
	*list = append(*list, text)
	return true, nil
}

// read reads the next page, of at most limit spans. Commands get half of the page, so that neither table waits for
// the other.
func (e *exporter) read(ctx context.Context, limit int) (p *page, err error) {
	settled, err := store.SettledIn(ctx, e.ledger.Store)
	if err != nil {
		return nil, err
	}
	err = e.ledger.Read(ctx, func(c *store.Conn) error {
		p = &page{after: e.at}
		p.after.waiting = slices.Clone(e.at.waiting)
		r := &reader{Conn: c, settled: settled, database: e.database, texts: e.texts, now: e.ledger.Now(), page: p,
			firsts: map[string]*first{}}
		if err := r.waiting((limit + 1) / 2); err != nil {
			return err
		}
		if err := r.commands((limit+1)/2 - len(p.commands)); err != nil {
			return err
		}
		return r.events(limit - p.size())
	})
	return p, err
}

// reader reads a page within one snapshot.
type reader struct {
	*store.Conn
	settled  store.Settled
	database string
	texts    bool
	now      time.Time
	page     *page
	firsts   map[string]*first // by message
}

const commandColumns = `id, trace_id, span_id, parent_span_id, name, kind, started_at, ended_at, status, status_message, actor, caller, attributes`

// waiting reads those commands that had not ended when the cursor passed them, and that have ended since. A command
// whose row is gone was killed, and retention has deleted the row.
func (r *reader) waiting(limit int) error {
	if len(r.page.after.waiting) == 0 {
		return nil
	}
	ids, err := json.Marshal(r.page.after.waiting)
	if err != nil {
		return err
	}
	rows, err := store.List(r.Conn, commandOf,
		`SELECT `+commandColumns+` FROM command_trace WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id`,
		string(ids))
	if err != nil {
		return err
	}
	r.page.after.waiting = nil
	for i := range rows {
		row, added := &rows[i], false
		switch {
		case row.endedAt == "":
		case len(r.page.commands) == limit:
			r.page.more = true
		default:
			if added, err = r.page.add(&r.page.commands, r.command(row)); err != nil {
				return err
			}
		}
		if !added {
			r.page.after.waiting = append(r.page.after.waiting, row.id)
		}
	}
	return nil
}

// commands reads the commands after the cursor, up to the first one that may be about to write its row again.
func (r *reader) commands(limit int) error {
	if limit <= 0 {
		return nil
	}
	rows, err := store.List(r.Conn, commandOf,
		`SELECT `+commandColumns+` FROM command_trace WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT +?3`,
		r.page.after.spans, r.settled.Commands, limit)
	for i := range rows {
		row := &rows[i]
		if row.endedAt == "" {
			if r.page.after.waiting = append(r.page.after.waiting, row.id); len(r.page.after.waiting) > maxWaiting {
				r.page.after.waiting = r.page.after.waiting[1:]
				r.page.after.missed++
			}
		} else if age := r.now.Sub(orchestrator.ParseStamp(row.endedAt)); age >= -time.Minute &&
			age < tracing.SettledAfter {
			return nil
		} else if added, err := r.page.add(&r.page.commands, r.command(row)); err != nil || !added {
			return err
		}
		r.page.after.spans = row.id
	}
	r.page.more = r.page.more || len(rows) == limit
	return err
}

// events reads the events after the cursor. In a store that reuses the ids of undone transactions, each missing id is
// a deleted row and counts as missed.
func (r *reader) events(limit int) error {
	if limit <= 0 {
		r.page.more = true
		return nil
	}
	rows, err := store.List(r.Conn, eventOf, `
		SELECT t.id, t.message_id, t.at, t.event, t.old_status, t.new_status, t.attempt, t.actor, t.span_id, t.error,
			t.detail,
		       coalesce(m.sender, a.sender, ''), coalesce(m.recipient, a.recipient, ''),
		       	coalesce(m.message_type, a.message_type, ''),
		       coalesce(m.thread_id, a.thread_id, ''), coalesce(m.trace_id, a.trace_id, ''),
		       	coalesce(m.span_id, a.span_id, ''),
		       coalesce(c.trace_id, ''), coalesce(c.name, '')
		FROM message_trace t
		LEFT JOIN agent_message m ON m.message_id = t.message_id
		LEFT JOIN agent_message_archive a ON m.message_id IS NULL AND a.message_id = t.message_id
		LEFT JOIN command_trace c ON t.span_id <> '' AND c.span_id = t.span_id
		WHERE t.id > ?1 AND t.id <= ?2 ORDER BY t.id LIMIT +?3`, r.page.after.events,
		min(r.settled.Events, store.MaxNumber), limit)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		span, err := r.event(row)
		if err != nil {
			return err
		}
		if added, err := r.page.add(&r.page.events, span); err != nil || !added {
			return err
		}
		if r.settled.Dense {
			r.page.after.missed += row.id - r.page.after.events - 1
		}
		r.page.after.events = row.id
	}
	r.page.more = r.page.more || len(rows) == limit
	return nil
}
