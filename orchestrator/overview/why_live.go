package overview

import (
	"fmt"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/adoption"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
)

// noDaemon is the advice for a message that is due later.
const noDaemon = "No daemon runs. Keep `mailroom serve` running, or run `mailroom deliver_all` when the message is due"

// explainLive explains a message that is not finished.
func explainLive(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, m *orchestrator.Message, daemons int,
	why *Reason) error {
	if err := adoption.Ahead(c, m, conf, l.Now()); err != nil {
		return err
	}
	why.NextAttemptAt = m.NextAttemptAt
	now := orchestrator.Stamp(l.Now())
	overdueAt := orchestrator.ParseStamp(ledger.DueSince(m)).Add(conf.Settings.OverdueAfter)
	why.Overdue = m.CreatedAt != "" && overdueAt.Before(l.Now())
	why.Where = "in agent_message, undelivered"
	deliver := "Run `mailroom deliver_all`, or keep `mailroom serve` running"
	comes := noDaemon
	if daemons > 0 {
		deliver = noAction + ": a daemon delivers it within seconds. If it does not, check the daemon's log"
		comes = noAction + ": a daemon delivers it when it is due"
	}
	agent := conf.Agents[m.Recipient]
	switch {
	case m.LeaseToken == "" && m.ExpiresAt != "" && m.ExpiresAt <= now:
		explainOver(m, why)
	case m.Held:
		explainHeld(m, agent != nil, why)
	case m.LeaseToken != "":
		explainLease(l, conf, m, deliver, why)
	case agent == nil:
		nobody, err := agents.Nobody(c, m.Recipient)
		if err != nil {
			return err
		}
		why.Rule = nobody + "; if no agent has that name at the last retry, the message becomes a dead letter"
		why.Fix = "To create the agent, run `mailroom agent add " + orchestrator.ShellWord(m.Recipient) + "`"
		if !orchestrator.CanBeAgent(m.Recipient) {
			why.Fix = orchestrator.NoAgentsName + ". To cancel the message now, run `mailroom cancel " +
				orchestrator.ShellWord(m.ID) + "`"
		}
	case agent.Withheld():
		why.Rule = "it waits because " + ledger.NotTrusted + ": " + conf.Untrusted
		why.Fix = ledger.NotTrustedHint + ". " + m.Recipient + " can also read it with `mailroom wait --recipient " +
			orchestrator.ShellWord(m.Recipient) + "`"
	case agent.Elsewhere():
		return explainElsewhere(c, l, agent, why)
	case agent.Waits():
		since, because := agent.DisabledSince()
		why.Rule = "the transport of " + m.Recipient + " has been disabled since " + since + ": " + because
		why.Fix = "To use the same address again, run `mailroom agent enable " + orchestrator.ShellWord(m.Recipient) +
			"`. To set another address, run `mailroom agent add " + orchestrator.ShellWord(m.Recipient) +
			" --deliver ...`. Both commands release its messages"
	case m.NextAttemptAt > now && conf.HoldOf(m.Sender, m.Recipient, now) != nil:
		h := conf.HoldOf(m.Sender, m.Recipient, now)
		why.Rule = fmt.Sprintf("messages between %s and %s are %s (since %s)", h.A, h.B, h, h.Since)
		why.Fix = fmt.Sprintf("To release these messages, run `mailroom hold %s %s --off`", h.A, h.B)
	case m.NextAttemptAt > now:
		return explainLater(c, conf, m, l.Now(), comes, why)
	default:
		if err := explainOrder(c, l, conf, m, comes, why); err != nil || why.Rule != "" {
			return err
		}
		if delivery.SlotsTaken(l, agent) {
			why.Rule = fmt.Sprintf("the running commands for %s have reached the limit of %d", m.Recipient,
				max(agent.Concurrency, 1))
			why.Fix = noAction + ": it is delivered when one of these commands ends. Commands that a killed process left running count as well"
			return nil
		}
		why.Rule = "it is due now, and the next delivery run delivers it"
		why.Fix = deliver
		return explainLocks(c, l, m, why)
	}
	return nil
}

// explainLocks names other programs that may block delivery of a message, because they lock its row or a row that
// comes before it.
func explainLocks(c *store.Conn, l *ledger.Ledger, m *orchestrator.Message, why *Reason) error {
	s, ok := l.Store.(store.Central)
	if !ok {
		return nil
	}
	who, err := s.LockedBy(c)
	if err == nil && len(who) > 0 {
		why.Rule = "it is due now, but message rows may be locked by " + strings.Join(who, "; ") +
			": if one of these rows is a message to " + m.Recipient + ", all messages to " + m.Recipient + " wait"
		why.Fix = "Let the program end its transaction, or end its connection with `SELECT pg_terminate_backend(PID)`"
	}
	return err
}

// explainOver explains a message that expires with the next run, unless its transport already has it.
func explainOver(m *orchestrator.Message, why *Reason) {
	why.Rule = "it expired at " + m.ExpiresAt + ", so the next delivery run makes it a dead letter"
	if m.Marks != "" {
		why.Rule += ", unless its transport then reports that it already has the message"
	}
	why.Fix = "To send it again after that, run `mailroom dead_letters replay " + orchestrator.ShellWord(m.ID) + "`"
}

// explainHeld explains a message that waits for a device or for an agent with its recipient's name. known is set if
// the recipient is an agent.
func explainHeld(m *orchestrator.Message, known bool, why *Reason) {
	if m.Recipient == orchestrator.User {
		why.Rule = "no approved device can show it. Mailroom keeps it as an alert for the next device that is approved"
		why.Fix = "To add a phone, run `mailroom signal pair`. To cancel the message but keep the alert, run `mailroom cancel " +
			orchestrator.ShellWord(m.ID) + "`"
		return
	}
	why.Rule = "it is held until you add an agent named " + m.Recipient
	why.Fix = "To create the agent, run `mailroom agent add " + orchestrator.ShellWord(m.Recipient) +
		"`. To cancel the message, run `mailroom cancel " + orchestrator.ShellWord(m.ID) + "`"
	switch {
	case known:
		why.Rule = "somebody marked it as held with SQL, although the agent " + m.Recipient + " exists"
		why.Fix = "To release it, run `mailroom agent add " + orchestrator.ShellWord(m.Recipient) +
			"`. To cancel it, run `mailroom cancel " + orchestrator.ShellWord(m.ID) + "`"
	case !orchestrator.CanBeAgent(m.Recipient):
		why.Rule = fmt.Sprintf("it is held for the name %q, which somebody wrote with SQL", m.Recipient)
		why.Fix = orchestrator.NoAgentsName + ". To cancel the message, run `mailroom cancel " + orchestrator.ShellWord(m.ID) + "`"
	}
}

// explainLease explains a message under a lease. deliver is the advice on how to deliver messages now.
func explainLease(l *ledger.Ledger, conf *ledger.Config, m *orchestrator.Message, deliver string, why *Reason) {
	now := orchestrator.Stamp(l.Now())
	switch {
	case ledger.IsUnowned(m) && m.LeaseUntil > now:
		back := leaseTakenBack(l, conf, m)
		why.Rule = "no process owns its lease, which ends at " + m.LeaseUntil + ": somebody set the lease with SQL" + back
		why.Fix = endUnowned(l, m, back)
	case m.LeaseUntil > now:
		why.Rule = fmt.Sprintf("%s is delivering it; its lease ends at %s", m.LeaseOwner, m.LeaseUntil) +
			leaseTakenBack(l, conf, m)
		why.Fix = "Wait. If that process has died, the message is due again when the lease ends"
		if l.IsCentral() {
			why.Fix = "Wait. If that process has died, the message is due again within a minute"
		}
	case ledger.IsUnowned(m):
		why.Rule = "no process owned its lease, which ended at " + m.LeaseUntil + ": somebody set the lease with SQL"
		why.Fix = deliver
	default:
		why.Rule = fmt.Sprintf("the lease of %s ended at %s without a result: that process died or stalled",
			m.LeaseOwner, m.LeaseUntil)
		why.Fix = deliver
	}
}

// explainLater explains a message that is not due yet. comes is the advice on what delivers it when it is due.
func explainLater(c *store.Conn, conf *ledger.Config, m *orchestrator.Message, now time.Time, comes string,
	why *Reason) error {
	asked, err := delivery.TimesPutOff(c, m.ID)
	if err != nil {
		return err
	}
	back := takenBack(m.NextAttemptAt, now, delivery.HighestRung(&conf.Settings))
	switch {
	case ledger.IsWantedLater(m, orchestrator.Stamp(now)):
		why.Rule = m.Sender + " requested delivery no earlier than " + m.NotBefore
		why.Fix = comes + ". To cancel the message, run `mailroom cancel " + orchestrator.ShellWord(m.ID) + "`"
	case m.Status == orchestrator.Pending && asked == 0:
		why.Rule = "somebody set its next_attempt_at to " + m.NextAttemptAt + " with SQL" + back
		why.Fix = comes + ". To send a message for later delivery, use `mailroom send --not-before`"
	case m.Status == orchestrator.Pending:
		why.Rule = fmt.Sprintf("%s asked Mailroom to try again later; the next attempt is at %s", m.Recipient, m.NextAttemptAt) +
			back
		why.Fix = comes
	default:
		why.Rule = fmt.Sprintf("%s%s failed; attempt %d is at %s", orchestrator.Plural(m.Attempt()-1, "attempt"),
			through(conf.Agents[m.Recipient]), m.Attempt(), m.NextAttemptAt) + back
		why.Fix = "Remove the cause. A daemon makes the next attempt"
		if comes == noDaemon {
			why.Fix = "Remove the cause. " + noDaemon
		}
	}
	return nil
}

// through returns a phrase with the command or address to which an agent's messages go, or "" if the agent has none.
func through(agent *ledger.Agent) string {
	if _, address, _ := strings.Cut(agent.Deliver, ":"); address != "" {
		return " through " + agent.Deliver
	}
	return ""
}

// explainOrder explains a message that is due, but waits for an earlier message from the same sender. It leaves why
// unchanged if there is none. comes is as for explainLater.
func explainOrder(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, m *orchestrator.Message, comes string,
	why *Reason) error {
	ahead, err := ledger.Messages(c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE `+ledger.Leased+
		` AND NOT (`+ledger.Foreign+`) AND recipient = ? AND sender = ? AND seq <> ?
		ORDER BY lease_until DESC LIMIT 1`, m.Recipient, m.Sender, m.Seq)
	if err != nil {
		return err
	}
	behind, err := c.Texts(`SELECT p.sender || ' sent ' || p.message_id || ' before it, and that message is deferred until ' || p.next_attempt_at
		FROM agent_message m, agent_message p WHERE m.seq = ?3
			AND `+ledger.Overtaken+` ORDER BY p.next_attempt_at DESC LIMIT 1`, orchestrator.Stamp(l.Now()), m.Recipient,
		m.Seq)
	if err != nil {
		return err
	}
	switch {
	case len(ahead) > 0 && ledger.IsUnowned(&ahead[0]):
		back := leaseTakenBack(l, conf, &ahead[0])
		why.Rule = fmt.Sprintf("the message %s is also from %s to %s, and no process owns its lease, which ends at %s%s. Mailroom delivers the two messages in order",
			ahead[0].ID, m.Sender, m.Recipient, ahead[0].LeaseUntil, back)
		why.Fix = endUnowned(l, &ahead[0], back)
	case len(ahead) > 0:
		why.Rule = fmt.Sprintf("an earlier message from %s to %s is being delivered; Mailroom delivers the two messages in order", m.Sender,
			m.Recipient)
		why.Fix = "Wait until that delivery ends"
	case len(behind) > 0 && l.SetTransport(conf.Agents[m.Recipient]) == nil:
		why.Rule = behind[0] + "; Mailroom delivers the two messages in order"
		why.Fix = comes
	}
	return nil
}

// endUnowned returns the advice for a lease without an owner. back is the result of leaseTakenBack.
func endUnowned(l *ledger.Ledger, m *orchestrator.Message, back string) string {
	wait := "Wait until the lease ends"
	if back != "" {
		wait = "Run `mailroom deliver_all` now, and run it again when the lease has ended"
	}
	return fmt.Sprintf("%s. To end the lease now, run `%s`", wait,
		byHand(l, fmt.Sprintf("UPDATE agent_message SET lease_until = '' WHERE seq = %d", m.Seq)))
}

// byHand formats a statement for a person to run: as a shell command for a file, or as plain SQL for a database on a
// server.
func byHand(l *ledger.Ledger, statement string) string {
	if strings.Contains(l.Path(), "://") {
		return statement
	}
	return "sqlite3 " + orchestrator.ShellWord(l.Path()) + " \"" + statement + "\""
}

// leaseTakenBack describes what happens to a lease that ends too far in the future. It returns "" for any other
// lease.
func leaseTakenBack(l *ledger.Ledger, conf *ledger.Config, m *orchestrator.Message) string {
	longest := ledger.MaxLease
	if ledger.IsUnowned(m) {
		longest = conf.UsualLease(conf.Agents[m.Recipient])
	}
	return takenBack(m.LeaseUntil, l.Now(), longest)
}

// takenBack describes what happens to a time that is further in the future than any that Mailroom writes (see Tidy of
// package delivery). It returns "" for any other time.
func takenBack(at string, now time.Time, longest time.Duration) string {
	if at <= orchestrator.Stamp(now.Add(longest)) {
		return ""
	}
	return "; the next delivery run changes this time to " + orchestrator.FormatDuration(longest) + " after the run"
}

// explainStart explains whether the recipient's session is started for a message that was delivered and not read.
func explainStart(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, m *orchestrator.Message, why *Reason) error {
	a := conf.Agents[m.Recipient]
	if m.Status != orchestrator.Delivered || m.ReadAt != "" || a == nil || a.StartCommand == "" || m.IsPost() {
		return nil
	}
	status, since, err := agents.LatestStatus(c, a.Name)
	if err != nil {
		return err
	}
	run, err := sessions.LastRun(c, a.Name)
	if err != nil {
		return err
	}
	attended, err := sessions.Attended(c, l, a, l.Now())
	if err != nil {
		return err
	}
	says, printed := "; the session of "+a.Name+" ", "Its output is in "+sessions.Output(l, a.Name)
	switch {
	case conf.Untrusted != "":
		why.Rule += says + "is not started because this database is not trusted: " + conf.Untrusted
		why.Fix = ledger.NotTrustedHint
	case status == orchestrator.Stopped:
		why.Rule += says + "is not started because the agent stopped at " + since
		why.Fix = "The agent becomes active again when it sends a message itself"
	case attended != "":
		why.Rule += says + "is not started while another session of the agent is running: " + attended
	case run != nil && run.State == sessions.Ended && !sessions.ReadsInbox(a) && m.Seq <= run.Through &&
		m.DeliveredAt <= run.StartedAt:
		why.Rule += fmt.Sprintf("%swas started at %s, after this message was delivered, and has ended (%s)", says, run.StartedAt,
			run.Outcome)
	case run == nil || run.State == sessions.Ended:
		why.Rule += says + "is started by `mailroom serve` or `mailroom ralph watch`"
	case run.State == sessions.Running:
		why.Rule += fmt.Sprintf("%shas been running since %s (pid %d)", says, run.StartedAt, run.PID)
	case run.State == sessions.Failed:
		again := "at " + run.NextAt
		if run.NextAt == "" {
			again = "immediately, because its command was changed"
		}
		why.Rule += fmt.Sprintf("%sfailed (%s) and will be started again %s", says, run.Outcome, again)
		why.Fix = "Remove the cause. Mailroom starts the session again automatically. " + printed
	default:
		why.Rule += fmt.Sprintf("%sis not started again after %s (%s)", says, orchestrator.Plural(int(run.Failures), "failure"),
			run.Outcome)
		why.Fix = "Remove the cause. The next message to the agent, or another `mailroom agent add --start`, starts the session again. " + printed
	}
	return nil
}
