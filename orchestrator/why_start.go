package orchestrator

import "fmt"

// explainStart adds to what is known of a message that was delivered and not read whether the recipient's session is
// started for it.
func (c *Conn) explainStart(r *Router, conf *config, m *Message, why *Reason) error {
	a := conf.agents[m.Recipient]
	if m.Status != Delivered || m.ReadAt != "" || a == nil || a.StartCommand == "" || m.isPost() {
		return nil
	}
	status, since, err := c.latestStatus(a.Name)
	if err != nil {
		return err
	}
	run, err := c.lastRun(a.Name)
	if err != nil {
		return err
	}
	says, printed := "; the session of "+a.Name+" ", "What it printed is in "+r.SessionOutput(a.Name)
	switch {
	case conf.untrusted != "":
		why.Rule += says + "is not started: this database is not trusted, since " + conf.untrusted
		why.Fix = NotTrustedHint
	case status == Stopped:
		why.Rule += says + "is not started, since the agent has stopped at " + since
		why.Fix = "Whatever " + a.Name + " sends itself brings it back"
	case run != nil && run.State == RunEnded && !a.readsInbox() && m.seq <= run.through && m.DeliveredAt <= run.StartedAt:
		why.Rule += fmt.Sprintf("%swas started at %s, when it was there, and has ended (%s)", says, run.StartedAt, run.Outcome)
	case run == nil || run.State == RunEnded:
		why.Rule += says + "is started for it by `mailroom serve` or `mailroom ralph watch`"
	case run.State == RunRunning:
		why.Rule += fmt.Sprintf("%shas been running since %s (pid %d)", says, run.StartedAt, run.PID)
	case run.State == RunFailed:
		again := "at " + run.NextAt
		if run.NextAt == "" {
			again = "at once, since its command was changed"
		}
		why.Rule += fmt.Sprintf("%sfailed (%s) and is started again %s", says, run.Outcome, again)
		why.Fix = "Remove the cause; it is started again by itself. " + printed
	default:
		why.Rule += fmt.Sprintf("%swas given up after %s (%s)", says, plural(int(run.Failures), "failure"), run.Outcome)
		why.Fix = "Remove the cause; the next message to it, or another `--start`, starts it again. " + printed
	}
	return nil
}
