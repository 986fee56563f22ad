package overview

import (
	"context"
	"fmt"
	"math"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// quickBytes is how large a database may be whose every row QuickDoctor reads: that takes half a second.
const quickBytes = 64 << 20

// looksAtAll reports whether the checks that read every row are to be made. If not, it says so.
func (d *doctor) looksAtAll() bool {
	bytes, _ := d.ledger.Size()
	if !d.quick || bytes <= quickBytes {
		return true
	}
	d.add("every row", "note", fmt.Sprintf("not looked at, since that takes a while with %d MB: whether the database is whole, counts what it has, and has a trace of each message", bytes>>20),
		"`mailroom doctor` looks")
	return false
}

// everyRow makes the checks that read every row but those of the file itself.
func (d *doctor) everyRow(ctx context.Context) error {
	if err := d.ledger.Read(ctx, d.counts); err != nil {
		return err
	}
	n, err := d.untraced(ctx)
	if err != nil {
		return err
	}
	d.addCount(n, "trace", "problem", "%s without a trace, though traced_status says that Mailroom has handled it", "message",
		"Somebody deleted trace rows: a backup has them. Or somebody wrote rows by hand with traced_status, which only Mailroom sets: "+
			"`"+byHand(d.ledger, "UPDATE agent_message SET traced_status = '' WHERE message_id = 'ID'")+"` has it take such a row in")
	return nil
}

// counts tells whether status counts what there is.
func (d *doctor) counts(c *store.Conn) error {
	wrong, err := ledger.Miscounted(c)
	if len(wrong) > 0 {
		d.add("counts", "problem", fmt.Sprintf("%s of status: wrong by this: %s", orchestrator.Plural(len(wrong), "count"), strings.Join(wrong[:min(len(wrong), 5)], ", ")),
			"`mailroom recount`")
	}
	return err
}

// untracedStep is how many rows one transaction of untraced looks at.
const untracedStep = 20_000

// untraced counts the messages that have no trace and should have one. Each step is a transaction of its own: one that lasted as long as
// all would keep the write-ahead log from being folded, or a server from cleaning up.
func (d *doctor) untraced(ctx context.Context) (n int64, err error) {
	from, more := int64(math.MinInt64), true
	for more && err == nil {
		var found, upTo int64
		err = d.ledger.Read(ctx, func(c *store.Conn) (err error) {
			upTo, more = math.MaxInt64, false
			err = c.Query(`SELECT seq FROM agent_message WHERE seq > ?1 ORDER BY seq LIMIT 1 OFFSET +?2`, func(row store.Row) error {
				upTo, more = row.Int(0), true
				return nil
			}, from, untracedStep-1)
			if err == nil {
				found, err = c.Number(`SELECT count(*) FROM agent_message m WHERE seq > ?1 AND seq <= ?2 AND traced_status <> ''
					AND NOT EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id)`, from, upTo)
			}
			return err
		})
		if n, from = n+found, upTo; err == nil {
			err = ctx.Err()
		}
	}
	return n, err
}
