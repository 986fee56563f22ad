package overview

import (
	"fmt"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
)

// explainStart adds to what is known of a message that was delivered and not read whether the recipient's session is
// started for it.
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
	says, printed := "; the session of "+a.Name+" ", "What it printed is in "+sessions.Output(l, a.Name)
	switch {
	case conf.Untrusted != "":
		why.Rule += says + "is not started: this database is not trusted, since " + conf.Untrusted
		why.Fix = ledger.NotTrustedHint
	case status == orchestrator.Stopped:
		why.Rule += says + "is not started, since the agent has stopped at " + since
		why.Fix = "Whatever " + a.Name + " sends itself brings it back"
	case run != nil && run.State == sessions.Ended && !sessions.ReadsInbox(a) && m.Seq <= run.Through && m.DeliveredAt <= run.StartedAt:
		why.Rule += fmt.Sprintf("%swas started at %s, when it was there, and has ended (%s)", says, run.StartedAt, run.Outcome)
	case run == nil || run.State == sessions.Ended:
		why.Rule += says + "is started for it by `mailroom serve` or `mailroom ralph watch`"
	case run.State == sessions.Running:
		why.Rule += fmt.Sprintf("%shas been running since %s (pid %d)", says, run.StartedAt, run.PID)
	case run.State == sessions.Failed:
		again := "at " + run.NextAt
		if run.NextAt == "" {
			again = "at once, since its command was changed"
		}
		why.Rule += fmt.Sprintf("%sfailed (%s) and is started again %s", says, run.Outcome, again)
		why.Fix = "Remove the cause; it is started again by itself. " + printed
	default:
		why.Rule += fmt.Sprintf("%swas given up after %s (%s)", says, orchestrator.Plural(int(run.Failures), "failure"), run.Outcome)
		why.Fix = "Remove the cause; the next message to it, or another `--start`, starts it again. " + printed
	}
	return nil
}
