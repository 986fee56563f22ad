package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// claim is a set of rows of one recipient that this process holds under one lease.
type claim struct {
	agent    *ledger.Agent
	messages []orchestrator.Message
	token    string
	timeout  time.Duration
	secret   string            // secret that signs the messages to the agent
	slot     orchestrator.Slot // slot of a transport that limits concurrent attempts
	trial    bool              // a test message, which fails for good if it is not delivered now
}

// claimNext leases the rows that a worker delivers next to one recipient, in the order in which they must arrive, and
// at most as many as the transport accepts at once. A row whose process died before, or that has a mark of a
// transport, needs care and is claimed alone. The result is nil if nothing is due.
//
// At most one lease per sender and recipient is live at a time, which keeps their order. A message that waits for a
// retry does not block later messages; a message that its recipient postponed does. Source: contract, "What is
// promised", 3.
func claimNext(t *ledger.Tx, recipient string, o Options) (*claim, error) {
	conf := t.Config()
	agent := conf.Agents[recipient]
	if agent == nil || agent.Waits() || conf.Untrusted != "" {
		return nil, nil
	}
	if t.IsAlone() {
		if err := adoption.All(t); err != nil {
			return nil, err
		}
	}
	size := conf.Settings.ClaimSize
	if o.ClaimSize > 0 {
		size = o.ClaimSize
	}
	marked := ""
	if t.Ledger.SetTransport(agent) != nil {
		if agent.Away() && agent.Fallback != "" {
			return nil, nil // messages that the inbox refuses go into a file on the other host
		}
		marked = ` AND delivery_marks <> ''` // the other rows are delivered set-based
	} else if transport, _ := t.Ledger.TransportOf(agent.Deliver); transport != nil {
		if _, slotted := transport.(orchestrator.Slotted); slotted && o.slot == nil && agent.Disabled == "" {
			return nil, nil // the agent has just got this transport: the next worker takes a slot
		}
		size = min(size, batch(agent, transport))
	}
	ms, err := claimableMessages(t, recipient, marked, size)
	if err == nil {
		err = adoption.WrittenSince(t)
	}
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	ms = ms[:deliverableTogether(ms)]
	c := &claim{agent: agent, messages: ms, timeout: agent.Timeout(&conf.Settings), slot: o.slot}
	if o.Timeout > 0 {
		c.timeout = o.Timeout
	}
	if c.secret, err = agents.SecretFor(t, agent); err != nil {
		return nil, err
	}
	fault, err := t.ChangeRows(func() error { return lease(t, c) })
	if err != nil || fault == nil {
		return c, err
	}
	return c.one(t, marked)
}

// one leases the first message that can be leased alone, after a faulty row made the lease of several fail. The
// result is nil if none of the first ledger.ReviewBatch messages can be leased.
func (c *claim) one(t *ledger.Tx, marked string) (*claim, error) {
	ms, err := claimableMessages(t, c.agent.Name, marked, ledger.ReviewBatch)
	for i := range ms {
		c.messages = ms[i : i+1]
		stuck, err := t.RowSavepoint("reserving it for its delivery", ms[i].ID, func() error { return lease(t, c) })
		if err != nil || !stuck {
			return c, err
		}
	}
	return nil, err
}

// claimableMessages reads the messages that a worker may claim, in the order in which they must arrive. It returns at
// most limit messages, and if there are several, at most MaxRead bytes of payload.
func claimableMessages(t *ledger.Tx, recipient, marked string, limit int) ([]orchestrator.Message, error) {
	from := ` FROM agent_message m WHERE ` + ledger.Claimable + marked + ` ORDER BY priority DESC, seq LIMIT +?3`
	if limit > 1 {
		bytes, rows := int64(0), 0
		err := t.Query(`SELECT octet_length(payload)`+from, func(row store.Row) error {
			if bytes += row.Int(0); rows == 0 || bytes <= ledger.MaxRead {
				rows++
			}
			return nil
		}, t.ClockText, recipient, limit)
		if err != nil {
			return nil, err
		}
		limit = rows
	}
	return ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+from, t.ClockText, recipient, limit)
}

// batch returns the number of messages in one attempt of the agent's transport.
func batch(a *ledger.Agent, transport orchestrator.Transport) int {
	if a.Batch > 0 {
		return min(a.Batch, transport.MaxBatch())
	}
	if sized, ok := transport.(orchestrator.Sized); ok {
		return sized.UsualBatch()
	}
	return transport.MaxBatch()
}

// deliverableTogether returns how many of the rows may be delivered together: all before the first one that must be
// delivered alone.
func deliverableTogether(ms []orchestrator.Message) int {
	for i := range ms {
		if ms[i].Crashes > 0 || ms[i].Marks != "" {
			return max(i, 1)
		}
	}
	return len(ms)
}

// lease marks the rows of a claim as held by this process.
func lease(t *ledger.Tx, c *claim) error {
	token, err := t.NewID("")
	if err != nil {
		return err
	}
	c.token = t.Ledger.Store.Token(token)
	seqs := make([]int64, len(c.messages))
	for i := range c.messages {
		seqs[i] = c.messages[i].Seq
	}
	if err := t.SetBatch(seqs...); err != nil {
		return err
	}
	if err := t.Note(ledger.InBatch, tracing.Claimed, ""); err != nil {
		return err
	}
	// Without the CASE, a server searches for the rows of the batch among all due rows.
	return t.Run(`
		UPDATE agent_message SET lease_token = ?2, lease_until = ?3, lease_owner = ?4
		WHERE seq IN (SELECT seq FROM temp.batch) AND CASE WHEN `+ledger.Due+` THEN 1 ELSE 0 END = 1`,
		t.ClockText, c.token, orchestrator.Stamp(t.Clock.Add(c.timeout+ledger.LeaseGrace)), t.Actor)
}

// errUnmarked means that the database could not store a transport's note. The transport has not done anything yet.
var errUnmarked = errors.New("cannot record in the database that the delivery begins")

// mark stores a transport's note with every row of the claim if this process still holds all of them.
func mark(ctx context.Context, l *ledger.Ledger, c *claim, target, note string) error {
	err := l.Write(ctx, store.Of(c.messages[0].Recipient), func(t *ledger.Tx) error {
		for i := range c.messages {
			if held, err := addMarkHeld(t, &c.messages[i], c.token, target, note); err != nil {
				return err
			} else if !held {
				return orchestrator.ErrLeaseLost
			}
		}
		return nil
	})
	if code := orchestrator.CodeOf(err); code == orchestrator.Busy || code == orchestrator.Unavailable {
		err = fmt.Errorf("%w: %w", errUnmarked, err)
	}
	return err
}

// stillHeld returns ErrLeaseLost unless this process still holds every row of the claim.
func stillHeld(t *ledger.Tx, c *claim) error {
	for i := range c.messages {
		held, err := t.Number(`SELECT count(*) FROM agent_message WHERE seq = ? AND lease_token = ? AND `+ledger.Live,
			c.messages[i].Seq, c.token)
		if err != nil {
			return err
		}
		if held == 0 {
			return orchestrator.ErrLeaseLost
		}
	}
	return nil
}
