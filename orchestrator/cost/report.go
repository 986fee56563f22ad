package cost

import (
	"cmp"
	"context"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Report is what messages added to the contexts of an agent's models in a period.
type Report struct {
	Sum
	Lines []Line `json:"by_sender"` // the most bytes first
	Hours []Hour `json:"by_hour"`   // hours with any use, in order
}

// Sum is a number of messages and their size.
type Sum struct {
	Messages int64 `json:"messages"` // shown, listed in a digest or requested; a message may count several times
	Bytes    int64 `json:"bytes"`
	Tokens   int64 `json:"tokens"` // estimate: a quarter of the bytes
}

func (s *Sum) add(messages, bytes int64) {
	s.Messages += messages
	s.Bytes += bytes
	s.Tokens = s.Bytes / 4
}

// Line is the use of one sender, type and way.
type Line struct {
	Sender string `json:"sender"`
	Type   string `json:"message_type"`
	Way    Way    `json:"way"`
	Sum
}

// Hour is the use in one hour of the clock.
type Hour struct {
	At string `json:"at"` // start of the hour
	Sum
}

// Of reports what messages added to the contexts of an agent's models since a time, including the whole hour that
// contains it. Errors: those of the database.
func Of(ctx context.Context, l *ledger.Ledger, agent string, since time.Time) (r Report, err error) {
	err = l.Look(ctx, func(c *store.Conn) error {
		r = Report{}
		lines := map[Line]*Line{}
		err := c.Query(`SELECT at, sender, message_type, way, messages, bytes FROM context_use WHERE agent = ? AND at >= ?
			ORDER BY at`, func(row store.Row) error {
			key := Line{Sender: row.Text(1), Type: row.Text(2), Way: Way(row.Text(3))}
			line := lines[key]
			if line == nil {
				line = &Line{Sender: key.Sender, Type: key.Type, Way: key.Way}
				lines[key] = line
			}
			if at := row.Text(0); len(r.Hours) == 0 || r.Hours[len(r.Hours)-1].At != at {
				r.Hours = append(r.Hours, Hour{At: at})
			}
			for _, sum := range []*Sum{&r.Sum, &line.Sum, &r.Hours[len(r.Hours)-1].Sum} {
				sum.add(row.Int(4), row.Int(5))
			}
			return nil
		}, orchestrator.FoldName(agent), hour(since))
		for _, line := range lines {
			r.Lines = append(r.Lines, *line)
		}
		slices.SortFunc(r.Lines, func(a, b Line) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Sender, b.Sender), cmp.Compare(a.Type, b.Type),
				cmp.Compare(a.Way, b.Way))
		})
		return err
	})
	return r, err
}

// Pair is what one agent added to the context of another.
type Pair struct {
	Sender    string `json:"sender"`
	Recipient string `json:"recipient"`
	Sum
}

// Pairs returns the pairs of agents with at least the given messages and bytes since a time, the most bytes first,
// at most most pairs. It includes the whole hour that contains the time. Error: that of the database.
func Pairs(c *store.Conn, since time.Time, messages, bytes int64, most int) ([]Pair, error) {
	return store.List(c, func(row store.Row) Pair {
		p := Pair{Sender: row.Text(0), Recipient: row.Text(1)}
		p.add(row.Int(2), row.Int(3))
		return p
	}, `SELECT sender, agent, sum(messages), sum(bytes) FROM context_use WHERE at >= ?1
		GROUP BY sender, agent HAVING sum(messages) >= ?2 AND sum(bytes) >= ?3
		ORDER BY sum(bytes) DESC, sender, agent LIMIT +?4`, hour(since), messages, bytes, most)
}

// Now is what an agent's contexts got in one way in this hour of the clock.
type Now struct {
	Agent string
	Way   Way
	Bytes int64
}

// ThisHour returns the use in this hour of the clock, by agent and way.
func ThisHour(ctx context.Context, l *ledger.Ledger) (list []Now, err error) {
	err = l.Look(ctx, func(c *store.Conn) (err error) {
		list, err = store.List(c, func(row store.Row) Now { return Now{row.Text(0), Way(row.Text(1)), row.Int(2)} },
			`SELECT agent, way, sum(bytes) FROM context_use WHERE at = ? GROUP BY agent, way ORDER BY agent, way`, hour(l.Now()))
		return err
	})
	return list, err
}
