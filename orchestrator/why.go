package orchestrator

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Reason says what holds a message and what would free it.
type Reason struct {
	MessageID     string    `json:"message_id"`
	Sender        string    `json:"sender"`
	Recipient     string    `json:"recipient"`
	Status        Status    `json:"status"`
	Gone          bool      `json:"gone,omitempty"` // deleted by retention; status is the last that it had
	Where         string    `json:"where"`          // where the message is
	Rule          string    `json:"rule"`           // which rule keeps it there
	NextAttemptAt string    `json:"next_attempt_at,omitempty"`
	Fix           string    `json:"fix"` // what would free it; "" when nothing needs to be done
	LastError     string    `json:"last_error,omitempty"`
	LastReport    string    `json:"last_report,omitempty"` // what its transport had to say of the last attempt: output, an answer
	Attempts      int       `json:"attempts"`
	Overdue       bool      `json:"overdue,omitempty"`
	Receipts      []Receipt `json:"receipts"`
}

// Why explains, for each message that an id names, where it is, which rule keeps it there, when the next attempt is, and
// what would free it. Error: not_found.
func (r *Router) Why(ctx context.Context, id string) (reasons []Reason, err error) {
	err = r.read(ctx, func(c *Conn) error {
		reasons = nil
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		daemons, err := c.daemons(r.Now())
		if err != nil {
			return err
		}
		signal, err := c.signalNamed(id)
		if err != nil {
			return err
		}
		if len(signal) > 0 {
			reasons, err = c.explainSignal(r, conf, signal, len(daemons))
			return err
		}
		ms, err := c.findMessages(id)
		if err != nil {
			return err
		}
		if len(ms) == 0 {
			reasons, err = c.explainDeleted(id)
			return err
		}
		for i := range ms {
			reason, err := c.explain(r, conf, &ms[i], len(daemons))
			if err != nil {
				return err
			}
			reasons = append(reasons, reason)
		}
		return nil
	})
	return reasons, err
}

func (c *Conn) explain(r *Router, conf *config, m *Message, daemons int) (Reason, error) {
	m.Sender, m.Recipient = adoptedName(m.Sender), adoptedName(m.Recipient)
	why := Reason{
		MessageID: m.ID, Sender: m.Sender, Recipient: m.Recipient, Status: m.Status, NextAttemptAt: m.NextAttemptAt, LastError: m.Error,
	}
	n, err := c.number(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'attempt_failed'`, m.ID)
	if err != nil {
		return why, err
	}
	why.Attempts = int(n)
	why.LastReport, _, err = c.text(`SELECT detail FROM message_trace WHERE message_id = ? AND detail <> '' ORDER BY id DESC LIMIT 1`, m.ID)
	if err != nil {
		return why, err
	}
	if m.DeliveredAt != "" {
		why.Attempts++
	}
	if why.Receipts, err = c.receipts(m); err != nil {
		return why, err
	}
	switch m.Status {
	case Delivered:
		if err := r.explainDelivered(c, conf, m, &why); err != nil {
			return why, err
		}
		return why, c.explainStart(r, conf, m, &why)
	case Failed:
		why.Where = "among the dead letters"
		why.Rule = fmt.Sprintf("it failed for good after %s", plural(why.Attempts, "attempt"))
		switch {
		case strings.HasPrefix(m.Error, string(UnknownRecipient)+": "), strings.HasPrefix(m.Error, string(UnknownSender)+": "):
			why.Rule = "it was refused when it was sent"
		case n == 0:
			why.Rule = strings.TrimSuffix("it was given up: "+m.Error, ": ")
		}
		why.Fix = "Remove the cause, then `mailroom dead_letters replay " + m.ID + "`"
		switch {
		case conf.lacksSender(m) && canBeAgent(m.Sender):
			why.Fix = addIt(m.Sender) + ", then `mailroom dead_letters replay " + m.ID + "`"
		case conf.lacksSender(m):
			why.Fix = noAgentsName + ": send it anew from another, if it is still wanted"
		case conf.agents[m.Recipient] != nil:
		case canBeAgent(m.Recipient):
			why.Fix = addIt(m.Recipient) + ", then `mailroom dead_letters replay " + m.ID + "`"
		default:
			why.Fix = noAgentsName + ": send it anew to another, if it is still wanted"
		}
	case Lapsed:
		why.Where, why.Rule = "among the dead letters", "it expired: "+m.Error
		why.Fix = "`mailroom dead_letters replay " + m.ID + "` sends it again"
	case Cancelled:
		why.Where, why.Rule = "nowhere", "its sender took it back"
		if reason, _, err := c.text(`SELECT error FROM message_trace WHERE message_id = ? AND event = 'cancelled' ORDER BY id DESC LIMIT 1`, m.ID); err != nil {
			return why, err
		} else if reason != "" {
			why.Rule = "it was taken back: " + reason
		}
	default:
		return why, c.explainLive(r, conf, m, daemons, &why)
	}
	return why, nil
}

// explainDelivered says where a message is that was delivered, and how much is known of that.
func (r *Router) explainDelivered(c *Conn, conf *config, m *Message, why *Reason) error {
	if m.isPost() {
		why.Where = "in the thread " + m.ThreadID
		why.Rule = "a post is delivered with its writing, and stays as long as its thread is open"
		return nil
	}
	through, whose, err := c.tookIt(conf.agents[m.Recipient], m)
	if err != nil {
		return err
	}
	if through == "" {
		r.explainByHand(m, why)
		return nil
	}
	place, stands, err := c.text(`SELECT CASE read_at WHEN '' THEN 'unread' ELSE 'read' END FROM agent_inbox WHERE message_id = ? AND recipient = ?`, m.ID, m.Recipient)
	if err != nil {
		return err
	}
	where, rule, fix, err := c.whereTaken(m, through, whose, stands)
	if err != nil {
		return err
	}
	why.Where = where
	lease, err := c.leaseOf(m)
	if err != nil {
		return err
	}
	switch {
	case lease != nil && lease.until <= stamp(r.Now()):
		why.Rule = fmt.Sprintf("delivered; shown to %s at %s, and not confirmed: unread again since %s", lease, lease.at, lease.until)
		why.Fix = "`mailroom wait --recipient " + m.Recipient + "` reads it"
	case lease != nil:
		why.Rule = fmt.Sprintf("delivered; shown to %s at %s, not yet confirmed: it is unread again at %s unless it is acknowledged", lease, lease.at, lease.until)
		why.Fix = "`mailroom acknowledge " + m.ID + "` confirms it, `mailroom mail release " + m.ID + "` makes it unread at once"
	case m.AcknowledgedAt != "":
		why.Rule = "delivered, read and acknowledged"
	case m.ReadAt != "":
		why.Rule = "delivered and read; not acknowledged"
	case place == "read":
		why.Rule = "delivered; its place in the inbox looks read though no reader has it and nobody has read it: somebody changed the tables by hand"
		why.Fix = "`mailroom mail release " + m.ID + "` makes it unread again"
	default:
		why.Rule, why.Fix = rule, fix
		switch {
		case m.ttl != nil && m.ExpiresAt <= stamp(r.Now()) && m.ArchivedAt == "":
			explainOver(m, why)
		case m.ttl != nil:
			why.Rule += "; it expires unread at " + m.ExpiresAt
		}
	}
	return nil
}

// whereTaken says where a message is that a transport took, and what is known of it and what to do as long as nothing has been
// heard of its being read. through and whose are what tookIt returned; inInbox tells that it stands in the recipient's inbox.
func (c *Conn) whereTaken(m *Message, through, whose string, inInbox bool) (where, rule, fix string, err error) {
	scheme, address, _ := strings.Cut(through, ":")
	rule = "delivered; nothing has been heard of its being read"
	switch scheme {
	case "inbox":
		where = "with " + m.Recipient + ": it was delivered, and does not stand in the inbox (any more)"
		if inInbox {
			where = "in the inbox of " + m.Recipient
			fix = "`mailroom wait --recipient " + m.Recipient + "` reads it"
		}
	case "jsonl":
		where = "in the file " + address + whose
		fix = "Nothing: whoever reads that file has it"
	case "dir":
		where = "in the folder " + filepath.Join(address, m.Recipient) + ", or taken from there"
		fix = "Nothing, once " + m.Recipient + " takes the file away, which `mailroom ralph watch` notices"
	case "exec":
		where = "with " + m.Recipient + ": its command took it (" + through + ")"
		rule, fix = "delivered: the command ended with exit status 0, which is all that is known", "Nothing"
	case "webhook":
		where = "with " + m.Recipient + ": its server took it (" + through + ")"
		rule, fix = "delivered: the server said that it has it, which is all that is known", "Nothing"
	case "push", "ntfy":
		where = "with the push service, which hands it to the phone"
		rule, fix = "delivered: the push service took it, which is all that is known", "Nothing"
	case "person":
		made, err := c.madeOf(m.ID)
		if err != nil {
			return "", "", "", err
		}
		where = "in the app of the user's phones, as " + made
		rule, fix = "delivered: it was made a question or an alert", "Nothing; `mailroom why "+made+"` says more"
	default:
		where = "with " + m.Recipient + ", through " + through
	}
	return where, rule, fix, nil
}

// explainByHand explains a message that is delivered only by what somebody wrote.
func (r *Router) explainByHand(m *Message, why *Reason) {
	why.Where, why.Rule = "in "+m.table()+" only", "nothing has delivered it: somebody wrote its status by hand"
	if m.DeliveredAt != "" {
		why.Attempts-- // there was none at that time
	}
	switch {
	case m.ReadAt != "" || m.AcknowledgedAt != "":
	case m.ArchivedAt != "":
		why.Fix = "Send it anew, if it is still wanted"
	default:
		why.Fix = fmt.Sprintf("Have it delivered: `sqlite3 %s \"UPDATE agent_message SET status = 'pending' WHERE seq = %d\"`", shellWord(r.Path()), m.seq)
	}
}

// tookIt returns the transport that took a message of an agent, which may have been removed: its fallback if the trace
// says so, its inbox if it stands there, and else the agent's own. whose tells a fallback from that. through is "" for a message
// that none has taken: somebody wrote by hand that it is delivered.
func (c *Conn) tookIt(agent *Agent, m *Message) (through, whose string, err error) {
	how, delivered, err := c.text(`SELECT error FROM message_trace WHERE message_id = ? AND event = 'delivered' ORDER BY id DESC LIMIT 1`, m.ID)
	if err != nil {
		return "", "", err
	}
	if fallback, found := strings.CutPrefix(how, byFallback); found {
		return strings.TrimSuffix(fallback, ": "+foundEarlier), ", the fallback of " + m.Recipient, nil
	}
	if strings.HasPrefix(m.Recipient, DevicePrefix) { // it may be gone
		return "push", "", nil
	}
	stands, err := c.number(`SELECT count(*) FROM agent_inbox WHERE message_id = ? AND recipient = ?`, m.ID, m.Recipient)
	switch {
	case err != nil:
		return "", "", err
	case stands == 0 && !delivered:
		return "", "", nil
	case stands > 0 || agent == nil:
		return "inbox", "", nil
	}
	return agent.Deliver, "", nil
}

// explainDeleted explains a message of which only the trace is left. Error: not_found.
func (c *Conn) explainDeleted(id string) ([]Reason, error) {
	m, at, err := c.deletedMessage(id)
	if err != nil {
		return nil, err
	}
	if at == "" {
		_, err := c.mustFind(id)
		return nil, err
	}
	why := Reason{
		MessageID: id, Sender: m.Sender, Recipient: m.Recipient, Status: m.Status, Gone: true, LastError: m.Error,
		Where: "nowhere: it was deleted at " + at, Rule: "retention deletes what has ended for long enough",
		Fix: "Nothing; `mailroom trace " + id + "` tells its story",
	}
	n, err := c.number(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'attempt_failed'`, id)
	if why.Attempts = int(n); err == nil {
		why.Receipts, err = c.receipts(&m)
	}
	return []Reason{why}, err
}
