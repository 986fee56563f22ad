package overview

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
)

// Reason explains where a message is, what keeps it there, and what to do about it.
type Reason struct {
	MessageID     string              `json:"message_id"`
	Sender        string              `json:"sender"`
	Recipient     string              `json:"recipient"`
	Status        orchestrator.Status `json:"status"`
	Gone          bool                `json:"gone,omitempty"` // deleted by retention; Status is its last status
	Where         string              `json:"where"`          // where the message is
	Rule          string              `json:"rule"`           // which rule keeps it there
	NextAttemptAt string              `json:"next_attempt_at,omitempty"`
	Fix           string              `json:"fix"` // what would release it; "" if nothing needs to be done
	LastError     string              `json:"last_error,omitempty"`
	// LastReport is what the transport reported about the last attempt: output or an answer.
	LastReport string             `json:"last_report,omitempty"`
	Attempts   int                `json:"attempts"`
	Overdue    bool               `json:"overdue,omitempty"`
	Receipts   []messages.Receipt `json:"receipts"`
}

// Why explains where a message is, which rule keeps it there, when the next attempt is, and what would release it. It
// returns one Reason for each message with the ID: several for a message sent to a group. Error: not_found.
func Why(ctx context.Context, l *ledger.Ledger, id string) (reasons []Reason, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		reasons = nil
		daemons, err := daemons.ListIn(c, l)
		if err != nil {
			return err
		}
		signal, err := signalNamed(c, id)
		if err != nil {
			return err
		}
		if len(signal) > 0 {
			reasons, err = explainSignal(c, l, conf, signal, len(daemons))
			return err
		}
		ms, err := messages.FindIn(c, id)
		if err != nil {
			return err
		}
		if len(ms) == 0 {
			reasons, err = explainDeleted(c, id)
			return err
		}
		for i := range ms {
			reason, err := explain(c, l, conf, &ms[i], len(daemons))
			if err != nil {
				return err
			}
			reasons = append(reasons, reason)
		}
		return nil
	})
	return reasons, err
}

// explainDeleted explains a message of which only the trace is left. Error: not_found.
func explainDeleted(c *store.Conn, id string) ([]Reason, error) {
	m, at, err := messages.Deleted(c, id)
	if err != nil {
		return nil, err
	}
	if at == "" {
		return nil, messages.NoMessage(id)
	}
	why := Reason{
		MessageID: id, Sender: m.Sender, Recipient: m.Recipient, Status: m.Status, Gone: true, LastError: m.Error,
		Where: "deleted from the database at " + at, Rule: "Mailroom deletes finished messages when their retention period ends",
		Fix: "No action needed. To see the recorded steps, run `mailroom trace " + orchestrator.ShellWord(id) + "`",
	}
	if why.Attempts, err = failedAttempts(c, id); err == nil {
		why.Receipts, err = messages.ReceiptsOf(c, &m)
	}
	return []Reason{why}, err
}

// explain explains one existing message, archived or not.
func explain(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, m *orchestrator.Message, daemons int) (Reason,
	error) {
	m.Sender, m.Recipient = adoption.Name(m.Sender), adoption.Name(m.Recipient)
	why := Reason{
		MessageID: m.ID, Sender: m.Sender, Recipient: m.Recipient, Status: m.Status, NextAttemptAt: m.NextAttemptAt,
		LastError: m.Error,
	}
	n, err := failedAttempts(c, m.ID)
	if err != nil {
		return why, err
	}
	why.Attempts = n
	// A detail from before the end of the last attempt belongs to an earlier attempt.
	why.LastReport, _, err = c.Text(`SELECT detail FROM message_trace WHERE message_id = ?1 AND detail <> ''
		AND id >= coalesce((SELECT max(id) FROM message_trace WHERE message_id = ?1 AND event IN ('attempt_failed', 'delivered', 'replayed')), 0)
		ORDER BY id DESC LIMIT 1`, m.ID)
	if err != nil {
		return why, err
	}
	if m.DeliveredAt != "" {
		why.Attempts++
	}
	if why.Receipts, err = messages.ReceiptsOf(c, m); err != nil {
		return why, err
	}
	switch m.Status {
	case orchestrator.Delivered:
		if err := explainDelivered(l, c, conf, m, &why); err != nil {
			return why, err
		}
		return why, explainStart(c, l, conf, m, &why)
	case orchestrator.Failed:
		explainFailed(conf, m, n > 0, &why)
	case orchestrator.Expired:
		why.Where, why.Rule = "among the dead letters", "it expired: "+m.Error
		why.Fix = "To send it again, run `mailroom dead_letters replay " + orchestrator.ShellWord(m.ID) + "`"
	case orchestrator.Cancelled:
		why.Where, why.Rule = "in "+ledger.Table(m)+" only", "it was canceled before it was delivered"
		if reason, _, err := c.Text(`SELECT error FROM message_trace WHERE message_id = ? AND event = 'cancelled'
			ORDER BY id DESC LIMIT 1`, m.ID); err != nil {
			return why, err
		} else if reason != "" {
			why.Rule = "it was canceled: " + reason
		}
	default:
		return why, explainLive(c, l, conf, m, daemons, &why)
	}
	return why, nil
}

// failedAttempts counts the failed attempts to deliver a message.
func failedAttempts(c *store.Conn, id string) (int, error) {
	n, err := c.Number(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'attempt_failed'`, id)
	return int(n), err
}

// explainDelivered explains where a delivered message is, and how much is known about its delivery.
func explainDelivered(l *ledger.Ledger, c *store.Conn, conf *ledger.Config, m *orchestrator.Message,
	why *Reason) error {
	if m.IsPost() {
		why.Where = "in the thread " + m.ThreadID
		why.Rule = "a post counts as delivered when it is written; Mailroom deletes it together with its closed thread when the retention period ends"
		return nil
	}
	place, stands, err := c.Text(`SELECT CASE read_at WHEN '' THEN 'unread' ELSE 'read' END FROM agent_inbox
		WHERE message_id = ? AND recipient = ?`, m.ID, m.Recipient)
	if err != nil {
		return err
	}
	through, whose, err := tookIt(c, conf.Agents[m.Recipient], m, stands)
	if err != nil {
		return err
	}
	if through == "" {
		explainByHand(l, m, why)
		return nil
	}
	where, rule, fix, err := whereTaken(c, m, through, whose, stands)
	if err != nil {
		return err
	}
	why.Where = where
	lease, err := messages.LeaseOf(c, m)
	if err != nil {
		return err
	}
	switch {
	case lease != nil && lease.Unwritten():
		why.Rule = fmt.Sprintf("delivered; given at %[2]s to %[1]s, which has not finished writing its answer", lease, lease.At)
		why.Fix = "No action needed: the message is marked as read when the answer is written, or becomes unread again if the process ends first"
	case lease != nil && lease.Until <= orchestrator.Stamp(l.Now()):
		why.Rule = fmt.Sprintf("delivered; shown to %s at %s but not confirmed, so it has been unread again since %s", lease,
			lease.At, lease.Until)
		why.Fix = "To read it, run `mailroom wait --recipient " + orchestrator.ShellWord(m.Recipient) + "`"
	case lease != nil && lease.Session != "":
		why.Rule = fmt.Sprintf("delivered; shown to %s at %s, not yet confirmed: the next event in the session shows whether the model received it", lease, lease.At)
		why.Fix = "No action needed: the next tool call or the end of the turn shows whether the model received the message. To make the message unread now, run `mailroom mail release " +
			orchestrator.ShellWord(m.ID) + "`"
	case lease != nil:
		why.Rule = fmt.Sprintf("delivered; shown to %s at %s, not yet confirmed: it becomes unread again at %s unless it is acknowledged", lease, lease.At, lease.Until)
		why.Fix = "To confirm it, run `mailroom acknowledge " + orchestrator.ShellWord(m.ID) + "`. To make it unread now, run `mailroom mail release " +
			orchestrator.ShellWord(m.ID) + "`"
	case m.AcknowledgedAt != "":
		why.Rule = "delivered, read, and acknowledged"
	case m.IsOwnCopy():
		why.Rule = "delivered: this is the copy that " + m.Sender + " keeps of its own message to " + m.Group + "; Mailroom does not show it to any agent"
	case m.ReadAt != "":
		why.Rule = "delivered and read, but not acknowledged"
	case place == "read":
		why.Rule = "delivered; its row in agent_inbox is marked as read, but no agent has read it: somebody changed the tables with SQL"
		why.Fix = "To make it unread again, run `mailroom mail release " + orchestrator.ShellWord(m.ID) + "`"
	default:
		why.Rule, why.Fix = rule, fix
		switch {
		case m.TTL != nil && m.ExpiresAt <= orchestrator.Stamp(l.Now()) && m.ArchivedAt == "":
			explainOver(m, why)
		case m.TTL != nil:
			why.Rule += "; if nobody reads it, it expires at " + m.ExpiresAt
		}
		return explainWake(c, conf, m, l.Now(), why)
	}
	return nil
}

// explainWake explains why an unread message wakes no session of its recipient, or is not shown there.
func explainWake(c *store.Conn, conf *ledger.Config, m *orchestrator.Message, now time.Time, why *Reason) error {
	agent := conf.Agents[m.Recipient]
	if agent == nil {
		return nil
	}
	sessions, _, err := c.Text(`SELECT told_in FROM agent_inbox WHERE recipient = ? AND message_id = ?`, agent.Name, m.ID)
	if err != nil {
		return err
	}
	if told := strings.Fields(sessions); len(told) > 0 {
		in := "session "
		if len(told) > 1 {
			in = "sessions "
		}
		why.Rule += "; listed in a digest, but not shown, in " + in + strings.Join(told, " and ") +
			", because the hourly context budget of " + agent.Name + " (budget.bytes) was used up"
		return nil
	}
	n, err := c.Number(`SELECT count(*) FROM host_sessions WHERE agent = ? AND state <> 'ended'`, agent.Name)
	if err != nil || n == 0 {
		return err
	}
	budget, err := cost.Left(c, conf, agent.Name, now)
	if err != nil {
		return err
	}
	if !budget.Allows(m, len(m.Payload)) {
		why.Rule += "; the hourly context budget of " + agent.Name + " (budget.bytes) is used up, so the agent's sessions see no more messages until " +
			orchestrator.Stamp(cost.Renewed(now))
		return nil
	}
	wake, wantedBy := agent.WakeRules().WakeOf(m)
	if wake == orchestrator.WakeNow {
		return nil
	}
	wants := "based on its type, priority, or sender"
	if wantedBy != "" {
		wants = "set by " + wantedBy
	}
	why.Rule += fmt.Sprintf("; its `wake` is %s (%s), so it does not wake a session; it is shown in the next turn of a session", wake, wants)
	return nil
}

// tookIt returns the transport that delivered a message to an agent: the fallback if the trace names it, the inbox if
// the message is in it (inInbox), and otherwise the agent's own transport. agent is nil if it was removed. whose is a
// phrase that describes a fallback. through is "" if no transport delivered the message, because somebody set its
// status by hand.
func tookIt(c *store.Conn, agent *ledger.Agent, m *orchestrator.Message, inInbox bool) (through, whose string,
	err error) {
	how, delivered, err := c.Text(`SELECT error FROM message_trace WHERE message_id = ? AND event = 'delivered'
		ORDER BY id DESC LIMIT 1`, m.ID)
	if err != nil {
		return "", "", err
	}
	if fallback, found := strings.CutPrefix(how, delivery.ByFallback); found {
		return strings.TrimSuffix(fallback, ": "+delivery.FoundEarlier), ", the fallback of " + m.Recipient, nil
	}
	if strings.HasPrefix(m.Recipient, push.DevicePrefix) { // the device may be gone
		return "push", "", nil
	}
	switch {
	case !inInbox && !delivered:
		return "", "", nil
	case inInbox || agent == nil:
		return "inbox", "", nil
	}
	return agent.Deliver, "", nil
}

// explainByHand explains a message whose status was set to delivered by hand.
func explainByHand(l *ledger.Ledger, m *orchestrator.Message, why *Reason) {
	why.Where, why.Rule = "in "+ledger.Table(m)+" only", "Mailroom has not delivered it: somebody set its status with SQL"
	if m.DeliveredAt != "" {
		why.Attempts-- // delivered_at does not stand for an attempt
	}
	switch {
	case m.ReadAt != "" || m.AcknowledgedAt != "":
	case m.ArchivedAt != "":
		why.Fix = "If the message is still needed, send it again"
	default:
		why.Fix = fmt.Sprintf("To have it delivered, run `%s`",
			byHand(l, fmt.Sprintf("UPDATE agent_message SET status = 'pending' WHERE seq = %d", m.Seq)))
	}
}

// whereTaken returns where a message is that a transport delivered, what is known about it, and what to do as long as
// there is no sign that it was read. through and whose are results of tookIt. inInbox is set if the message is in the
// recipient's inbox.
func whereTaken(c *store.Conn, m *orchestrator.Message, through, whose string, inInbox bool) (where, rule, fix string,
	err error) {
	scheme, address, _ := strings.Cut(through, ":")
	rule = "delivered; no confirmation yet that it was read"
	switch scheme {
	case "inbox":
		where = "delivered to " + m.Recipient + " but not, or no longer, in its inbox"
		if inInbox {
			where = "in the inbox of " + m.Recipient
			fix = "To read it, run `mailroom wait --recipient " + orchestrator.ShellWord(m.Recipient) + "`"
		}
	case "jsonl":
		where = "in the file " + address + whose
		fix = "No action needed: the program that reads the file receives it"
	case "dir":
		where = "in the folder " + filepath.Join(address, m.Recipient) + ", or already removed from it"
		fix = "No action needed. `mailroom ralph watch` notices when " + m.Recipient + " removes the file"
	case "exec":
		where = "with " + m.Recipient + ": its command accepted the message (" + through + ")"
		rule, fix = "delivered: the command ended with exit status 0; nothing more is known", noAction
	case "webhook":
		where = "with " + m.Recipient + ": its server accepted the message (" + through + ")"
		rule, fix = "delivered: the server confirmed receipt; nothing more is known", noAction
	case "push", "ntfy":
		where = "with the push service, which delivers it to the phone"
		rule, fix = "delivered: the push service accepted it; nothing more is known", noAction
	case "person":
		made, err := madeOf(c, m.ID)
		if err != nil {
			return "", "", "", err
		}
		rule, fix = "delivered: Mailroom turned it into a question or an alert", noAction
		if made == "" {
			where = "in the app on the user's phones, as a question or an alert that has since been deleted"
			break
		}
		where = "in the app on the user's phones, as " + made
		fix += ". For details, run `mailroom why " + orchestrator.ShellWord(made) + "`"
	default:
		where = "with " + m.Recipient + ", delivered through " + through
	}
	return where, rule, fix, nil
}

// noAction is the advice if nothing needs to be done.
const noAction = "No action needed"

// sendToGroup is the advice for a dead letter to a name that now belongs to a group.
const sendToGroup = "A dead letter can be replayed to one agent only. If the message is still needed, send it again to the group"

// explainFailed explains why a message failed permanently, and what to do about it. tried is set if delivery was
// attempted.
func explainFailed(conf *ledger.Config, m *orchestrator.Message, tried bool, why *Reason) {
	why.Where = "among the dead letters"
	why.Rule = fmt.Sprintf("delivery failed permanently after %s", orchestrator.Plural(why.Attempts, "attempt"))
	switch {
	case ledger.WasRefused(m):
		why.Rule = "it was rejected when it was sent"
	case !tried:
		why.Rule = strings.TrimSuffix("Mailroom stopped trying to deliver it: "+m.Error, ": ")
	}
	why.Fix = "Remove the cause, then run `mailroom dead_letters replay " + orchestrator.ShellWord(m.ID) + "`"
	switch {
	case messages.LacksSender(conf, m) && orchestrator.CanBeAgent(m.Sender):
		why.Fix = orchestrator.AddIt(m.Sender) + ". Then run `mailroom dead_letters replay " +
			orchestrator.ShellWord(m.ID) + "`"
	case messages.LacksSender(conf, m):
		why.Fix = orchestrator.NoAgentsName + ". If the message is still needed, send it again from another agent"
	case conf.Agents[m.Recipient] != nil:
	case conf.Groups[m.Recipient] != nil:
		why.Fix = sendToGroup
	case orchestrator.CanBeAgent(m.Recipient):
		why.Fix = orchestrator.AddIt(m.Recipient) + ". Then run `mailroom dead_letters replay " +
			orchestrator.ShellWord(m.ID) + "`"
	default:
		why.Fix = orchestrator.NoAgentsName + ". If the message is still needed, send it again to another agent"
	}
}
