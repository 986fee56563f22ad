package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// HeldNotice is the type of the message that notifies two agents that their messages to each other are held.
const HeldNotice = "held"

// Hold holds the messages between two agents for at most an hour. Their messages stay pending, and their TTL is
// suspended. Hold notifies each of the two agents once, in words for its model. by describes who requested the
// hold. If the messages are already held, nothing changes and held is false. n is the number of waiting messages.
//
// Errors: not_found for an unknown agent; invalid_params unless both are different agents with an inbox; conflict
// if one of them has no living session of an agent host, because a program that waits for a message would only wait
// longer.
func Hold(ctx context.Context, l *ledger.Ledger, a, b, by string) (h ledger.Hold, held bool, n int, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		held, n = false, 0
		if h, err = newHold(t, a, b, by); err != nil {
			return err
		}
		if old := t.Config().HoldOf(h.A, h.B, t.ClockText); old != nil {
			h = *old
			n, err = Waiting(t.Conn, old)
			return err
		}
		if err := attending(t, h.A, h.B); err != nil {
			return err
		}
		held = true
		if err := t.StoreHold(&h); err != nil {
			return err
		}
		if n, err = putOff(t, &h); err != nil {
			return err
		}
		for _, of := range [][2]string{{h.A, h.B}, {h.B, h.A}} {
			if err := tellHeld(t, of[0], of[1], &h); err != nil {
				return err
			}
		}
		return nil
	})
	return h, held, n, err
}

// newHold checks the two agents and returns a hold between them.
func newHold(t *ledger.Tx, a, b, by string) (ledger.Hold, error) {
	a, b = orchestrator.FoldName(a), orchestrator.FoldName(b)
	conf := t.Config()
	for _, name := range []string{a, b} {
		switch agent := conf.Agents[name]; {
		case agent == nil:
			return ledger.Hold{}, agents.NoAgent(t.Conn, name, conf)
		case a == b:
			return ledger.Hold{}, orchestrator.Errorf(orchestrator.InvalidParams, "name two different agents, not %s twice", a)
		case agent.BuiltIn || agent.Deliver != "inbox":
			return ledger.Hold{}, orchestrator.Errorf(orchestrator.InvalidParams,
				"%s is not an agent with an inbox; you can hold messages only between two agents with inboxes", name)
		}
	}
	return ledger.Hold{A: min(a, b), B: max(a, b), Since: t.ClockText, Until: orchestrator.Stamp(t.Clock.Add(ledger.MaxHold)),
		By: by}, nil
}

// attending returns an error for an agent that has no living session of a host.
func attending(t *ledger.Tx, names ...string) error {
	known, err := PresenceIn(t, nil, names...)
	if err != nil {
		return err
	}
	for _, name := range names {
		if is := known[name]; is != IsWorking && is != IsIdle {
			return orchestrator.Errorf(orchestrator.Conflict, "%s has no running session of an agent host", name).
				WithHint("Mailroom can hold only messages between sessions of agent hosts. Stop the program that works as %s", name)
		}
	}
	return nil
}

// ofPair selects the live messages between the agents ?1 and ?2 that no worker is delivering.
const ofPair = ledger.Live + ` AND lease_token = '' AND recipient IN (?1, ?2) AND sender IN (?1, ?2) AND sender <> recipient`

// Waiting returns the number of messages that a hold holds back. Its error is that of the database.
func Waiting(c *store.Conn, h *ledger.Hold) (int, error) {
	n, err := c.Number(`SELECT count(*) FROM agent_message WHERE `+ofPair+` AND not_before = ?3`, h.A, h.B, h.Until)
	return int(n), err
}

// putOff postpones the messages that are due before the hold ends.
func putOff(t *ledger.Tx, h *ledger.Hold) (int, error) {
	return each(t, h, `next_attempt_at < ?3`, func(m *orchestrator.Message, _ string) error {
		err := reschedule(t, m, h.Until, h.Until, m.NotBefore, orchestrator.ParseStamp(h.Until).Sub(t.Clock))
		if err != nil {
			return err
		}
		return t.NoteOf(m, tracing.Held, h.String())
	})
}

// release makes the held messages due at the times that their senders set.
func release(t *ledger.Tx, h *ledger.Hold, by string) (int, error) {
	return each(t, h, `not_before = ?3`, func(m *orchestrator.Message, wanted string) error {
		next, notBefore := "", t.ClockText // the time from which it is due again
		if wanted > t.ClockText {
			next, notBefore = wanted, wanted
		}
		err := reschedule(t, m, next, notBefore, "", t.Clock.Sub(orchestrator.ParseStamp(h.Until)))
		if err != nil {
			return err
		}
		return t.NoteOf(m, tracing.Released, "released by "+by)
	})
}

// each calls do for the messages of a pair that a condition selects, in the order of sending. In the condition, ?3
// is the end of the hold. wanted is the message's not_before from before the hold.
func each(t *ledger.Tx, h *ledger.Hold, which string, do func(m *orchestrator.Message, wanted string) error) (int, error) {
	wanted, err := store.List(t.Conn, func(row store.Row) string { return row.Text(0) },
		`SELECT held_from FROM agent_message WHERE `+ofPair+` AND `+which+` ORDER BY seq`, h.A, h.B, h.Until)
	if err != nil {
		return 0, err
	}
	ms, err := ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE `+ofPair+` AND `+which+
		` ORDER BY seq`, h.A, h.B, h.Until)
	for i := range ms {
		if err == nil {
			err = do(&ms[i], wanted[i])
		}
	}
	t.WakeAll()
	return len(ms), err
}

// reschedule sets the time at which a message is due, and moves its expiry by the time that the hold adds or takes
// away.
func reschedule(t *ledger.Tx, m *orchestrator.Message, next, notBefore, heldFrom string, by time.Duration) error {
	expires := orchestrator.Stamp(orchestrator.ParseStamp(m.ExpiresAt).Add(by))
	overdue := orchestrator.Stamp(orchestrator.ParseStamp(notBefore).Add(t.Config().Settings.OverdueAfter))
	due, waits, err := t.Text(`SELECT due_at FROM acknowledgement_due WHERE message_id = ?`, m.ID)
	if err != nil {
		return err
	}
	if waits {
		due = orchestrator.Stamp(orchestrator.ParseStamp(due).Add(by))
		if err := t.Run(`UPDATE acknowledgement_due SET due_at = ? WHERE message_id = ?`, due, m.ID); err != nil {
			return err
		}
	}
	return t.Run(`UPDATE agent_message SET next_attempt_at = ?2, not_before = ?3, held_from = ?4, expires_at = ?5, review_at = ?6
		WHERE seq = ?1`, m.Seq, next, notBefore, heldFrom, expires, min(expires, overdue))
}

// tellHeld notifies an agent that the messages between it and another agent are held.
func tellHeld(t *ledger.Tx, agent, other string, h *ledger.Hold) error {
	text, err := json.Marshal(fmt.Sprintf("Messages between you and %s are held by %s until %s, or until the hold is "+
		"removed, because you have exchanged many messages. Nothing is lost. Do not write to %[1]s, and do not wait for an answer. Continue "+
		"with your own task, or end your turn and tell your user which questions are open.", other, h.By, h.Until))
	if err != nil {
		return err
	}
	// The notice is urgent because an agent that has written many messages has no budget left.
	return t.Tell(&orchestrator.Draft{Recipient: agent, Type: HeldNotice, Payload: text, Priority: 2})
}

// LetGo allows two agents to exchange any number of messages for an hour, and releases the messages that Hold holds
// back. let is false if no messages were held; n is the number of messages that are due now. Errors: those of Hold.
func LetGo(ctx context.Context, l *ledger.Ledger, a, b, by string) (h ledger.Hold, let bool, n int, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		let, n = false, 0
		if h, err = newHold(t, a, b, by); err != nil {
			return err
		}
		old := t.Config().StoredHold(h.A, h.B)
		if err := t.StoreGoOn(&h); err != nil || old == nil {
			return err
		}
		let = true
		n, err = release(t, old, by)
		return err
	})
	return h, let, n, err
}

// dropHolds removes the holds of a removed agent, because another agent may get its name.
func dropHolds(t *ledger.Tx, agent string) error {
	return t.DropHolds(func(h *ledger.Hold) bool { return h.A == agent || h.B == agent })
}
