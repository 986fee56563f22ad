package move

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// copying fills one database from another, with one transaction in each.
type copying struct {
	reached  func(step string) // see Run
	ctx      context.Context
	from, to store.Mover
	tx       *ledger.Tx // of the new place
	pairs    []pair
	left     []string
	adopt    []int64 // seqs of messages whose rows were written by hand and could not be kept unchanged
	repairs  Repairs
}

// pair is a table at both places. Both have the same columns, in the same order.
type pair struct {
	from, to store.MovedTable
	sent     digest
}

// plan pairs the tables. Tables of other programs in the same database are not moved.
func (c *copying) plan() error {
	old, err := c.from.Tables()
	if err != nil {
		return err
	}
	have := map[string]store.MovedTable{}
	for _, t := range old {
		if have[t.Name] = t; t.Foreign {
			c.left = append(c.left, t.Name)
		}
	}
	now, err := c.to.Tables()
	if err != nil {
		return err
	}
	for _, t := range now {
		if t.Foreign {
			continue
		}
		from, names := have[t.Name], namesOf(t)
		for _, column := range namesOf(from) {
			if !slices.Contains(names, column) {
				return orchestrator.Errorf(orchestrator.Conflict,
					"the table %s has a column %s that is not part of Mailroom and would be lost", t.Name,
					column).
					WithHint("Drop that column, or keep its values in a table of your own")
			}
		}
		for _, column := range names {
			if !slices.Contains(namesOf(from), column) {
				return orchestrator.Errorf(orchestrator.Unavailable, "the table %s lacks the column %s", t.Name, column)
			}
		}
		from.Columns = t.Columns
		from.Ordered = from.Ordered && t.Ordered
		c.pairs = append(c.pairs, pair{from: from, to: t})
	}
	return nil
}

func namesOf(t store.MovedTable) (names []string) {
	for _, column := range t.Columns {
		names = append(names, column.Name)
	}
	return names
}

// clear empties the tables. It deletes twice, because triggers count what the first pass deletes.
func (c *copying) clear() error {
	for range 2 {
		for _, p := range c.pairs {
			statement := `DELETE FROM ` + p.to.Name
			if p.to.Name == settings {
				statement += ` WHERE NOT ` + store.OwnSetting
			}
			if err := c.tx.Run(statement); err != nil {
				return err
			}
		}
	}
	return nil
}

// settings is the name of the table that has rows of its own at each place.
const settings = "settings"

// copy copies all rows, and the next values of the number sequences.
func (c *copying) copy() error {
	for i := range c.pairs {
		p := &c.pairs[i]
		if err := c.to.Fill(p.to, c.rows(p)); err != nil {
			return cmp.Or(c.twins(p), err)
		}
		c.reached("copied " + p.to.Name)
	}
	numbers, err := c.from.Numbers()
	if err != nil {
		return err
	}
	if err := c.to.Filled(numbers); err != nil {
		return err
	}
	names, err := c.from.InboxViews()
	for _, name := range names {
		if err == nil && orchestrator.IsName(name) { // skip names that were written by hand
			err = c.to.MakeInboxView(name, c.tx.Now)
		}
	}
	return err
}

// rows yields the rows of a table at the old place, converted for the new place.
func (c *copying) rows(p *pair) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		fitting := make(store.Row, len(p.to.Columns))
		stopped := false
		err := c.each(c.from, p.from, func(row store.Row) error {
			c.fit(p.to, row, fitting)
			p.sent.add(fitting, p.from.Ordered)
			if stopped = !yield(fitting, nil); stopped {
				return errStopped
			}
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

var errStopped = orchestrator.Errorf(orchestrator.Internal, "the new database accepts no more rows")

// each calls the function each for every row of a table that moves.
func (c *copying) each(of store.Mover, t store.MovedTable, each func(row store.Row) error) error {
	n := 0
	return of.Each(t, func(row store.Row) error {
		if n++; n%1000 == 0 && c.ctx.Err() != nil {
			return store.GaveUp(c.ctx)
		}
		if t.Name == settings && store.IsOwnSetting(row.Text(slices.Index(namesOf(t), "key"))) {
			return nil
		}
		return each(row)
	})
}

// compare reads all rows again at the new place and compares them with the rows that were sent.
func (c *copying) compare() error {
	for _, p := range c.pairs {
		var got digest
		table := p.to
		table.Ordered = table.Ordered || p.from.Ordered
		err := c.each(c.to, table, func(row store.Row) error {
			got.add(row, p.from.Ordered)
			return nil
		})
		if err != nil {
			return err
		}
		if got != p.sent {
			return orchestrator.Errorf(orchestrator.Internal,
				"the table %s has %d rows in the old database and %d in the new one, or the rows differ; nothing was moved",
				p.to.Name, p.sent.n, got.n)
		}
	}
	return nil
}

// digest is a checksum of rows, independent of their order. In an ordered table, the position of each row is part of
// the checksum.
type digest struct {
	n   int64
	sum [2]uint64
}

func (d *digest) add(row store.Row, ordered bool) {
	d.n++
	var text []byte
	if ordered {
		text = binary.AppendVarint(text, d.n)
	}
	for _, value := range row {
		switch v := value.(type) {
		case nil:
			text = append(text, 'n')
		case int64:
			text = binary.AppendVarint(append(text, 'i'), v)
		default:
			s := store.Text(v)
			text = append(binary.AppendVarint(append(text, 't'), int64(len(s))), s...)
		}
	}
	h := sha256.Sum256(text)
	d.sum[0] += binary.LittleEndian.Uint64(h[:])
	d.sum[1] += binary.LittleEndian.Uint64(h[8:])
}

// Repairs lists the values that the new place could not hold unchanged.
type Repairs struct {
	N     int64
	First []string // some of them, with their rows and their old values
}

// mostShown bounds the repairs in Repairs.First.
const mostShown = 20

// fit converts a row into values that the columns of the new place can hold. A value that does not fit was written by
// hand. fit replaces it by the value that mailroom has always read in its place: the nearest number, or 0; text
// without NULs and without invalid UTF-8.
func (c *copying) fit(t store.MovedTable, row, fitting store.Row) {
	adopt := false
	for i, column := range t.Columns {
		value, kept := fitValue(column, row[i])
		fitting[i] = value
		if kept {
			continue
		}
		if c.repairs.N++; len(c.repairs.First) < mostShown {
			c.repairs.First = append(c.repairs.First,
				fmt.Sprintf("%s of %s: %s became %s", column.Name, rowName(t, row), shown(row[i]), shown(value)))
		}
		adopt = adopt || t.Name == "agent_message" &&
			slices.Contains([]string{"message_id", "sender", "recipient", "status"}, column.Name)
	}
	if adopt {
		c.adopt = append(c.adopt, fitting.Int(slices.Index(namesOf(t), "seq")))
	}
}

func fitValue(column store.MovedColumn, value any) (fitting any, kept bool) {
	switch v := value.(type) {
	case nil:
		switch {
		case !column.Never:
			return nil, true
		case column.Number:
			return int64(0), false
		}
		return "", false
	case int64:
		if column.Number {
			return v, true
		}
	case string:
		if !column.Number {
			clean := cleaned(v)
			return clean, clean == v
		}
	}
	if column.Number {
		return store.Int(value), false
	}
	return cleaned(store.Text(value)), false
}

func cleaned(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// rowName describes a row by its table and its identifying column, or else its first column.
func rowName(t store.MovedTable, row store.Row) string {
	column := max(slices.IndexFunc(t.Columns, func(c store.MovedColumn) bool {
		return c.Name == "message_id" ||
			c.Name == "name" || c.Name == "key"
	}), 0)
	return fmt.Sprintf("%s in %s", shown(row[column]), t.Name)
}

// shown formats a value for an error message or a report, and cuts it if it is long.
func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return "NULL"
	case int64:
		return strconv.FormatInt(v, 10)
	case []byte:
		return fmt.Sprintf("x'%x'", v[:min(len(v), 40)])
	}
	text := store.Text(value)
	return strconv.QuoteToASCII(text[:min(len(text), 60)])
}
