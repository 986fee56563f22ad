package messages

import (
	"context"
	"encoding/json"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// placedUnacknowledged is the condition for what a transport outside the database has delivered and nobody has
// acknowledged. It must stand to the letter: see ledger/rows.go.
const placedUnacknowledged = "status = 'delivered' AND acknowledged_at = '' AND delivery_marks <> ''"

// ReadPlaced returns messages that were delivered to an agent as files through target (SCHEME:ADDRESS) and are not
// acknowledged, in the order of reading: at most limit messages and 4 MiB of payload; more says that there are others. It
// returns the same ones again until they are acknowledged. With mark, those that were unread are marked as read; fresh lists
// these, for reading.Unread. Errors: those of the database.
func ReadPlaced(ctx context.Context, l *ledger.Ledger, agent, target string, limit int, mark bool) (ms, fresh []orchestrator.Message, more bool, err error) {
	err = l.Look(ctx, func(c *store.Conn) error {
		conf, err := l.Config.Load(c)
		if err == nil {
			ms, more, err = placedFor(c, conf, agent, target, limit)
		}
		return err
	})
	if err != nil || len(ms) == 0 || !mark {
		return ms, nil, more, err // who finds nothing never takes the write lock
	}
	err = l.Write(ctx, store.Of(agent), func(t *ledger.Tx) (err error) {
		t.Quiet, fresh = true, nil
		conf, err := t.Config()
		if err != nil {
			return err
		}
		if ms, more, err = placedFor(t.Conn, conf, agent, target, limit); err != nil {
			return err
		}
		for i := range ms {
			if ms[i].ReadAt != "" {
				continue
			}
			ms[i].ReadAt = t.Now
			if err := MarkRead(t, &ms[i], t.Now, tracing.Read, ""); err != nil {
				return err
			}
			fresh = append(fresh, ms[i])
		}
		if len(ms) == 0 {
			return nil
		}
		return t.Heartbeat(agent)
	})
	return ms, fresh, more, err
}

func placedFor(c *store.Conn, conf *ledger.Config, agent, target string, limit int) ([]orchestrator.Message, bool, error) {
	key, err := json.Marshal(target) // as AddMark writes it; within a note, its quotes are escaped
	if err != nil {
		return nil, false, err
	}
	return ledger.Fetch(c, placedInOrder, limit, ledger.MaxRead, agent, limit+1, string(key)+":", conf.Former(agent), conf.Since(agent))
}

const (
	placedThere = ` WHERE ` + placedUnacknowledged + ` AND recipient = ?1 AND instr(delivery_marks, ?3) > 0
		AND (+seq > ?4 OR ended_at > ?5)` // see got
	placedInOrder = `
		SELECT archived, seq FROM (
		    SELECT 0 AS archived, seq, priority, action FROM agent_message` + placedThere + `
		    UNION ALL
		    SELECT 1, seq, priority, action FROM agent_message_archive` + placedThere + `) AS m` + ledger.ReadingOrder + ` LIMIT +?2`
)
