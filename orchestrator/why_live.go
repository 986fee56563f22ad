package orchestrator

import (
	"fmt"
	"time"
)

// explainLive explains a message that the router still has to act on.
func (c *Conn) explainLive(r *Router, conf *config, m *Message, daemons int, why *Reason) error {
	if err := c.adoptAhead(m, conf, r.Now()); err != nil {
		return err
	}
	why.NextAttemptAt = m.NextAttemptAt
	now := stamp(r.Now())
	overdueAt := parseStamp(m.dueSince()).Add(conf.settings.OverdueAfter)
	why.Overdue = m.CreatedAt != "" && overdueAt.Before(r.Now())
	why.Where = "in agent_message, undelivered"
	deliver := "Run `mailroom deliver_all`, or keep `mailroom serve` running"
	if daemons > 0 {
		deliver = "A daemon is running and takes it within seconds; if not, look at its log"
	}
	agent := conf.agents[m.Recipient]
	switch {
	case m.leaseToken == "" && m.ExpiresAt != "" && m.ExpiresAt <= now:
		explainOver(m, why)
	case m.Held:
		explainHeld(m, agent != nil, why)
	case m.leaseToken != "":
		r.explainLease(conf, m, deliver, why)
	case agent == nil:
		nobody, err := c.nobody(m.Recipient)
		if err != nil {
			return err
		}
		why.Rule = nobody + "; it climbs the ladder and then fails"
		why.Fix = "`mailroom agent add " + m.Recipient + "`"
		if !canBeAgent(m.Recipient) {
			why.Fix = noAgentsName + ": `mailroom cancel " + m.ID + "` takes it back now"
		}
	case agent.Withheld():
		why.Rule = "it waits, since " + NotTrusted + ": " + conf.untrusted
		why.Fix = NotTrustedHint + "; " + m.Recipient + " can also read it with `mailroom wait --recipient " + m.Recipient + "`"
	case agent.waits():
		why.Rule = "the transport of " + m.Recipient + " is disabled since " + agent.Disabled
		why.Fix = "`mailroom agent add " + m.Recipient + " --deliver ...` names another address and lets its messages go"
	case m.NextAttemptAt > now:
		return c.explainLater(conf, m, r.Now(), why)
	default:
		if err := c.explainOrder(r, conf, m, why); err != nil || why.Rule != "" {
			return err
		}
		if r.slotsTaken(agent) {
			why.Rule = fmt.Sprintf("as many commands of %s are running as it allows, which is %d", m.Recipient, max(agent.Concurrency, 1))
			why.Fix = "Nothing; it is taken when one of them has ended, also one that a process left which was killed"
			return nil
		}
		why.Rule = "it is due now, and the next delivery run takes it"
		why.Fix = deliver
	}
	return nil
}

// explainOver explains a message that expires with the next run, unless its transport is found to have taken it.
func explainOver(m *Message, why *Reason) {
	why.Rule = "its time was over at " + m.ExpiresAt + ": it expires with the next delivery run"
	if m.marks != "" {
		why.Rule += ", unless its transport has it already, which is asked then"
	}
	why.Fix = "`mailroom dead_letters replay " + m.ID + "` sends it again, once it has expired"
}

// explainHeld explains a message that waits until somebody is there. known tells that the recipient is an agent.
func explainHeld(m *Message, known bool, why *Reason) {
	if m.Recipient == User {
		why.Rule = "it " + waitsForDevice + ": " + User + " has none that could show it. It is kept as an alert for the first that is approved"
		why.Fix = "`mailroom signal pair` adds a phone; `mailroom cancel " + m.ID + "` takes the message back, and leaves the alert"
		return
	}
	why.Rule = "it is held until somebody has the name " + m.Recipient
	why.Fix = "`mailroom agent add " + m.Recipient + "` or `mailroom cancel " + m.ID + "`"
	switch {
	case known:
		why.Rule = "somebody wrote by hand that it is held, though " + m.Recipient + " is known"
		why.Fix = "`mailroom agent add " + m.Recipient + "` lets it go, `mailroom cancel " + m.ID + "` takes it back"
	case !canBeAgent(m.Recipient):
		why.Rule = fmt.Sprintf("it is held until somebody has the name %q, which somebody wrote by hand", m.Recipient)
		why.Fix = noAgentsName + ": `mailroom cancel " + m.ID + "` takes it back"
	}
}

// explainLease explains a message under a lease. deliver says how messages are delivered now.
func (r *Router) explainLease(conf *config, m *Message, deliver string, why *Reason) {
	now := stamp(r.Now())
	switch {
	case m.isUnowned() && m.LeaseUntil > now:
		back := r.leaseTakenBack(conf, m)
		why.Rule = "it is under a lease without an owner until " + m.LeaseUntil + ": no process is delivering it, somebody wrote that by hand" + back
		why.Fix = r.endUnowned(m, back)
	case m.LeaseUntil > now:
		why.Rule = fmt.Sprintf("%s is delivering it; its lease ends at %s", m.LeaseOwner, m.LeaseUntil) + r.leaseTakenBack(conf, m)
		why.Fix = "Wait. If that process has died, the message is due again when the lease ends"
	case m.isUnowned():
		why.Rule = "it was under a lease without an owner, which somebody wrote by hand, until " + m.LeaseUntil
		why.Fix = deliver
	default:
		why.Rule = fmt.Sprintf("the lease of %s ended at %s without a result: that process died or stalled", m.LeaseOwner, m.LeaseUntil)
		why.Fix = deliver
	}
}

// explainLater explains a message that is not due yet.
func (c *Conn) explainLater(conf *config, m *Message, now time.Time, why *Reason) error {
	asked, err := c.timesPutOff(m.ID)
	if err != nil {
		return err
	}
	back := takenBack(m.NextAttemptAt, now, conf.settings.highestRung())
	switch {
	case m.isWantedLater(stamp(now)):
		why.Rule = m.Sender + " wants it delivered no earlier than " + m.NotBefore
		why.Fix = "Nothing; it comes by itself. `mailroom cancel " + m.ID + "` takes it back"
	case m.Status == Pending && asked == 0:
		why.Rule = "its next_attempt_at, " + m.NextAttemptAt + ", was written by hand" + back
		why.Fix = "Nothing; it comes by itself. For a later delivery there is `mailroom send --not-before`"
	case m.Status == Pending:
		why.Rule = fmt.Sprintf("%s asked to be tried later; the next attempt is at %s", m.Recipient, m.NextAttemptAt) + back
		why.Fix = "Nothing; it comes by itself"
	default:
		why.Rule = fmt.Sprintf("%s failed; attempt %d is at %s", plural(m.Attempt()-1, "attempt"), m.Attempt(), m.NextAttemptAt) + back
		why.Fix = "Remove the cause; the next attempt comes by itself"
	}
	return nil
}

// explainOrder explains a message that is due, and waits for one that its sender sent before it; why stays as it is when there
// is none.
func (c *Conn) explainOrder(r *Router, conf *config, m *Message, why *Reason) error {
	ahead, err := c.messages(`SELECT `+messageColumns+` FROM agent_message WHERE `+leased+` AND NOT (`+foreign+`) AND recipient = ? AND sender = ? AND seq <> ?
		ORDER BY lease_until DESC LIMIT 1`, m.Recipient, m.Sender, m.seq)
	if err != nil {
		return err
	}
	behind, err := c.texts(`SELECT p.message_id || ', which ' || p.sender || ' sent before it, is put off until ' || p.next_attempt_at
		FROM agent_message m, agent_message p WHERE m.seq = ?3 AND `+overtaken+` ORDER BY p.next_attempt_at DESC LIMIT 1`, stamp(r.Now()), m.Recipient, m.seq)
	if err != nil {
		return err
	}
	switch {
	case len(ahead) > 0 && ahead[0].isUnowned():
		back := r.leaseTakenBack(conf, &ahead[0])
		why.Rule = fmt.Sprintf("%s, from %s to %s too, is under a lease without an owner until %s%s; their order is kept",
			ahead[0].ID, m.Sender, m.Recipient, ahead[0].LeaseUntil, back)
		why.Fix = r.endUnowned(&ahead[0], back)
	case len(ahead) > 0:
		why.Rule = fmt.Sprintf("an earlier message from %s to %s is being delivered; their order is kept", m.Sender, m.Recipient)
		why.Fix = "Wait for that delivery"
	case len(behind) > 0 && r.setTransport(conf.agents[m.Recipient]) == nil:
		why.Rule = behind[0] + "; their order is kept"
		why.Fix = "Nothing; it comes by itself"
	}
	return nil
}

// endUnowned says what to do about a lease that no process holds. back is what leaseTakenBack says of it.
func (r *Router) endUnowned(m *Message, back string) string {
	wait := "Wait until then"
	if back != "" {
		wait = "Run `mailroom deliver_all`, and again when that time is over"
	}
	return fmt.Sprintf("%s. Or end it now: `sqlite3 %s \"UPDATE agent_message SET lease_until = '' WHERE seq = %d\"`", wait, shellWord(r.Path()), m.seq)
}

// leaseTakenBack is takenBack for the end of a lease, see clampLeases.
func (r *Router) leaseTakenBack(conf *config, m *Message) string {
	longest := maxLease
	if m.isUnowned() {
		longest = conf.usualLease(conf.agents[m.Recipient])
	}
	return takenBack(m.LeaseUntil, r.Now(), longest)
}

// takenBack says what becomes of a time that lies further ahead than any that the engine writes, see clampTimes; "" for another.
func takenBack(at string, now time.Time, longest time.Duration) string {
	if at <= stamp(now.Add(longest)) {
		return ""
	}
	return "; the next delivery run takes that back to " + FormatDuration(longest) + " from then"
}
