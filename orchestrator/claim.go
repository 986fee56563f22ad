package orchestrator

import (
	"context"
	"time"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// claim is a set of rows of one recipient that this process holds under one lease.
type claim struct {
	agent    *Agent
	messages []Message
	token    string
	timeout  time.Duration
	secret   string // with which messages to the agent are signed
	slot     Slot   // of a transport that bounds its attempts
	once     bool   // a test message, which has failed when it is not delivered now
}

// claimNext leases what a worker delivers next to one recipient: rows in the order in which they must arrive, at most as
// many as the transport takes at once. A row that needs care is taken alone: one whose process died before, or that
// carries a transport's mark. nil means that nothing is due.
//
// At most one lease of a sender and recipient is live at a time, which keeps their order; a message on the ladder does
// not hold back those behind it, one that its recipient put off does. Source: contract, "What is promised", 3.
func (t *tx) claimNext(recipient string, o DeliverOptions) (*claim, error) {
	conf, err := t.config()
	if err != nil {
		return nil, err
	}
	agent := conf.agents[recipient]
	if agent == nil || agent.waits() || conf.untrusted != "" {
		return nil, nil
	}
	if err := t.adoptAll(); err != nil {
		return nil, err
	}
	size := conf.settings.ClaimSize
	if o.ClaimSize > 0 {
		size = o.ClaimSize
	}
	marked := ""
	if t.r.setTransport(agent) != nil {
		marked = ` AND delivery_marks <> ''` // the rest is delivered set-based
	} else if transport, _ := t.r.transportOf(agent.Deliver); transport != nil {
		if _, slotted := transport.(Slotted); slotted && o.slot == nil && agent.Disabled == "" {
			return nil, nil // the agent has got this transport just now: the next worker takes a slot
		}
		size = min(size, agent.batch(transport))
	}
	ms, err := t.claimableMessages(recipient, marked, size)
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	ms = ms[:deliverableTogether(ms)]
	c := &claim{agent: agent, messages: ms, timeout: agent.timeout(&conf.settings), slot: o.slot}
	if o.Timeout > 0 {
		c.timeout = o.Timeout
	}
	if c.secret, err = t.secretFor(agent); err != nil {
		return nil, err
	}
	return c, t.lease(c)
}

// claimableMessages reads what a worker may claim, in the order in which it must arrive: at most so many messages, and of
// several no more than maxRead bytes of payload.
func (t *tx) claimableMessages(recipient, marked string, limit int) ([]Message, error) {
	from := ` FROM agent_message m WHERE ` + claimable + marked + ` ORDER BY priority DESC, seq LIMIT +?3`
	if limit > 1 {
		bytes, rows := int64(0), 0
		err := t.query(`SELECT octet_length(payload)`+from, func(row store.Row) error {
			if bytes += row.Int(0); rows == 0 || bytes <= maxRead {
				rows++
			}
			return nil
		}, t.clockText, recipient, limit)
		if err != nil {
			return nil, err
		}
		limit = rows
	}
	return t.messages(`SELECT `+messageColumns+from, t.clockText, recipient, limit)
}

// batch is how many messages one attempt of the agent's transport holds.
func (a *Agent) batch(transport Transport) int {
	if a.Batch > 0 {
		return min(a.Batch, transport.MaxBatch())
	}
	if sized, ok := transport.(Sized); ok {
		return sized.UsualBatch()
	}
	return transport.MaxBatch()
}

// deliverableTogether returns how many of the rows may be delivered together: all before the first that must be alone.
func deliverableTogether(ms []Message) int {
	for i := range ms {
		if ms[i].Crashes > 0 || ms[i].marks != "" {
			return max(i, 1)
		}
	}
	return len(ms)
}

// lease marks the rows of a claim as held by this process.
func (t *tx) lease(c *claim) error {
	token, err := t.newID("")
	if err != nil {
		return err
	}
	c.token = t.r.store.Token(token)
	seqs := make([]int64, len(c.messages))
	for i := range c.messages {
		seqs[i] = c.messages[i].seq
	}
	if err := t.setBatch(seqs...); err != nil {
		return err
	}
	if err := t.note(inBatch, tracing.Claimed, ""); err != nil {
		return err
	}
	_, err = t.Exec(`
		UPDATE agent_message SET lease_token = ?2, lease_until = ?3, lease_owner = ?4
		WHERE seq IN (SELECT seq FROM temp.batch) AND `+due,
		t.clockText, c.token, stamp(t.clock.Add(c.timeout+leaseGrace)), t.actor)
	return err
}

// mark stores a transport's note with every row of the claim, if this process still holds all of them.
func (r *Router) mark(ctx context.Context, c *claim, target, note string) error {
	return r.write(ctx, func(t *tx) error {
		if err := t.stillHeld(c); err != nil {
			return err
		}
		for i := range c.messages {
			if err := t.addMark(&c.messages[i], target, note); err != nil {
				return err
			}
		}
		return nil
	})
}

// stillHeld fails with ErrLeaseLost unless this process still holds every row of the claim.
func (t *tx) stillHeld(c *claim) error {
	for i := range c.messages {
		held, err := t.number(`SELECT count(*) FROM agent_message WHERE seq = ? AND lease_token = ? AND `+live, c.messages[i].seq, c.token)
		if err != nil {
			return err
		}
		if held == 0 {
			return ErrLeaseLost
		}
	}
	return nil
}
