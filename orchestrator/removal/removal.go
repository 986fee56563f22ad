// Package removal removes agents, and gives up the messages that wait for them.
package removal

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// Request specifies which agent to remove, and what to do with messages that wait for it.
type Request struct {
	Name  string
	Force bool   // give up undelivered and unread messages, instead of refusing
	By    string // who requests the removal; "" is the administrator

	Expired string // reason why its messages expire; "": they fail instead
}

// Remove removes an agent. The agent leaves its groups, sessions and threads, its open questions to the user are
// cancelled, and its tokens are revoked. A thread without any other participant is closed. Messages that the agent
// has sent or read are kept, but belong to no later agent of that name. Only agents.Add can add an agent with that
// name again.
//
// If there are messages that were not delivered to the agent, or that it has not read, Remove returns the error
// conflict, unless Force is set. With Force these messages fail or expire, and their senders are notified. failed is
// the number of these messages.
func Remove(ctx context.Context, l *ledger.Ledger, r Request) (failed int, err error) {
	r.Name = orchestrator.FoldName(r.Name)
	target := ""
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if a := t.Config().Agents[r.Name]; a != nil {
			target = a.Deliver
		}
		failed, err = RemoveIn(t, r)
		return err
	})
	if err == nil {
		delivery.ClearStaged(ctx, l, target)
	}
	return failed, err
}

// RemoveIn removes an agent within a transaction, by the rules of Remove. It does not clear the files that attempts
// left.
func RemoveIn(t *ledger.Tx, r Request) (failed int, err error) {
	if err := adoption.All(t); err != nil { // rows that other programs wrote for the agent count, too
		return 0, err
	}
	if orchestrator.IsBuiltIn(r.Name) {
		return 0, orchestrator.Errorf(orchestrator.InvalidParams, "cannot remove `%s`, which is reserved for %s", r.Name,
			orchestrator.BuiltIns[r.Name]).WithHint("Built-in names cannot be removed")
	}
	a := t.Config().Agents[r.Name]
	if a == nil || t.Ledger.PartOf(r.Name) != nil {
		return 0, agents.NoAgent(t.Conn, r.Name, t.Config())
	}
	return r.remove(t, a)
}

// remove removes an existing agent.
func (r *Request) remove(t *ledger.Tx, a *ledger.Agent) (failed int, err error) {
	undelivered, err := t.Number(`SELECT count(*) FROM agent_message WHERE `+ledger.Live+` AND recipient = ?`, r.Name)
	if err != nil {
		return 0, err
	}
	unread, err := t.Number(`SELECT count(*) FROM (`+messages.UnreadOf+`) AS u`, r.Name)
	if err != nil {
		return 0, err
	}
	if undelivered+unread > 0 && !r.Force {
		return 0, refuse(t, r.Name, undelivered, unread)
	}
	if err := keepRemoved(t, a, r.By); err != nil {
		return 0, err
	}
	if err := forget(t, r.Name); err != nil {
		return 0, err
	}
	// No agent has the name any more, so no report goes to it.
	if failed, err = r.giveUpMail(t); err != nil {
		return 0, err
	}
	for _, p := range t.Ledger.Parts {
		if p.AgentRemoved == nil {
			continue
		}
		if err := p.AgentRemoved(t, r.Name); err != nil {
			return 0, err
		}
	}
	return failed, nil
}

// refuse returns the error for an agent with waiting messages, with a hint for each kind of message.
func refuse(t *ledger.Tx, name string, undelivered, unread int64) error {
	later, err := t.Number(`SELECT count(*) FROM agent_message WHERE `+ledger.WantedLater+
		` AND not_before > ? AND recipient = ?`, t.ClockText, name)
	if err != nil {
		return err
	}
	out, err := t.Number(`SELECT count(*)`+messages.Lent+` AND l.until > ? AND l.recipient = ?`, t.ClockText, name)
	if err != nil {
		return err
	}
	var helps []string
	if undelivered+unread > later+out {
		helps = append(helps,
			fmt.Sprintf("Deliver the messages and read them as %[1]s (`mailroom wait --recipient %[1]s`)", name))
	}
	if out > 0 {
		helps = append(helps,
			fmt.Sprintf("Acknowledge the messages that a reader has leased (`mailroom acknowledge ID`), or make them unread "+
				"(`mailroom mail release --all --agent %s`)", name))
	}
	if later > 0 {
		helps = append(helps,
			fmt.Sprintf("Cancel the messages that are scheduled for later (to list them, run "+
				"`mailroom poll --recipient %s`; to cancel one, run `mailroom cancel ID`)", name))
	}
	mail := orchestrator.Plural(int(undelivered), "undelivered message") + " and " +
		orchestrator.Plural(int(unread), "unread message")
	if undelivered == 0 {
		mail = orchestrator.Plural(int(unread), "unread message")
	} else if unread == 0 {
		mail = orchestrator.Plural(int(undelivered), "undelivered message")
	}
	return orchestrator.Errorf(orchestrator.Conflict, "%s has %s", name, mail).
		WithHint("%s. Or discard the messages and notify their senders: `mailroom agent remove %s --force`",
			strings.Join(helps, ". "), name)
}

// keepRemoved records the removal of an agent. It deletes the idempotency keys of the agent's messages, and the
// acknowledgements for which the agent waits.
func keepRemoved(t *ledger.Tx, a *ledger.Agent, by string) error {
	for _, statement := range []string{
		`DELETE FROM idempotency WHERE sender = ?`,
		`DELETE FROM acknowledgement_due WHERE EXISTS
			(SELECT 1 FROM agent_message m WHERE m.message_id = acknowledgement_due.message_id AND m.sender = ?)`,
	} {
		if err := t.Run(statement, a.Name); err != nil {
			return err
		}
	}
	return t.Run(`
		INSERT INTO removed_agents (name, role, removed_at, removed_by) VALUES (?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET role = excluded.role, removed_at = excluded.removed_at,
			removed_by = excluded.removed_by`,
		a.Name, a.Role, t.Now, by)
}

// forget deletes an agent, its part in groups, in sessions and in the records of all parts, its inbox view and its
// tokens.
func forget(t *ledger.Tx, name string) error {
	for _, p := range t.Ledger.Parts {
		if p.Forget == nil {
			continue
		}
		if err := p.Forget(t, name); err != nil {
			return err
		}
	}
	if err := messages.EndReadingLeasesOf(t, name, "the agent "+name+" was removed; unread again"); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM agents WHERE name = ?`, `DELETE FROM group_members WHERE agent = ?`,
		`DELETE FROM presence WHERE agent = ?`,
		`DELETE FROM agent_secrets WHERE agent = ?`, `DELETE FROM heartbeats WHERE agent = ?`,
	} {
		if err := t.Run(statement, name); err != nil {
			return err
		}
	}
	if _, err := agents.RevokeTokensIn(t, name); err != nil {
		return err
	}
	if d, ok := t.Driver.(agents.InboxViews); ok {
		if err := d.DropInboxView(name); err != nil {
			return err
		}
	}
	return t.ConfigChanged()
}

// giveUpMail makes dead letters of all messages that wait for a name or are unread in its inbox, and notifies the
// senders. For an unread message that was archived, it only notifies the sender. failed is the number of these
// messages.
func (r *Request) giveUpMail(t *ledger.Tx) (failed int, err error) {
	name := r.Name
	for _, waiting := range []struct{ ids, reason string }{
		{`SELECT message_id FROM agent_message WHERE ` + ledger.Live + ` AND recipient = ? ORDER BY seq`,
			"the agent " + name + " was removed"},
		{`SELECT message_id FROM agent_inbox WHERE recipient = ? AND read_at = ''`,
			"the agent " + name + " was removed before it read the message"},
	} {
		ids, err := t.Texts(waiting.ids, name)
		if err != nil {
			return 0, err
		}
		for _, id := range ids { // one by one, because a backlog may be larger than memory
			n, err := r.giveUp(t, id, cmp.Or(r.Expired, waiting.reason))
			if err != nil {
				return 0, err
			}
			failed += n
		}
	}
	// The rows that were read go too, because no other agent can hand them back.
	return failed, t.Run(`DELETE FROM agent_inbox WHERE recipient = ?`, name)
}

// giveUp gives up one message. It returns 1, or 0 for an inbox row of another program that has no message.
func (r *Request) giveUp(t *ledger.Tx, id, reason string) (int, error) {
	ms, err := ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message
		WHERE message_id = ? AND recipient = ? AND status IN ('pending','retry','delivered')`, id, r.Name)
	if err != nil {
		return 0, err
	}
	switch {
	case len(ms) > 0 && r.Expired != "":
		return 1, delivery.Lapse(t, &ms[0], reason)
	case len(ms) > 0:
		return 1, delivery.GiveUp(t, &ms[0], reason, false)
	}
	ms, err = ledger.Messages(t.Conn,
		`SELECT `+ledger.ArchivedColumns+` FROM agent_message_archive WHERE message_id = ? AND +recipient = ?
		ORDER BY seq DESC LIMIT 1`, id, r.Name)
	if err != nil || len(ms) == 0 {
		return 0, err
	}
	code := orchestrator.DeliveryFailed
	if r.Expired != "" {
		code = orchestrator.MessageExpired
	}
	return 1, delivery.Bounce(t, &ms[0], code, reason, ms[0].RetryCount)
}
