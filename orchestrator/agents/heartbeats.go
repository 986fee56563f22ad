package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// watchChanged handles an update of an existing agent. known is the agent before the update; it is nil for a new
// agent.
func watchChanged(t *ledger.Tx, known, a *ledger.Agent) error {
	if known == nil {
		return nil
	}
	for _, p := range t.Ledger.Parts {
		if p.AgentChanged == nil {
			continue
		}
		if err := p.AgentChanged(t, known, a); err != nil {
			return err
		}
	}
	if known.SilentAfter == a.SilentAfter {
		return nil
	}
	return limitChanged(t, a)
}

// limitChanged starts, stops or adjusts the monitoring of an agent's silence after its limit was changed. If a
// working agent has not been heard of before, its silence counts from now on. A silence that was already reported
// is reported again only if it exceeds the new limit.
func limitChanged(t *ledger.Tx, a *ledger.Agent) error {
	if a.SilentAfter == 0 {
		return t.Run(`DELETE FROM heartbeats WHERE agent = ?`, a.Name)
	}
	heardAt, found, err := t.Text(`SELECT heard_at FROM heartbeats WHERE agent = ?`, a.Name)
	if err != nil {
		return err
	}
	status, _, err := LatestStatus(t.Conn, a.Name)
	if err != nil || !found && status != orchestrator.Working {
		return err // the agent may never have been started
	}
	heard := orchestrator.ParseStamp(heardAt)
	if !found || heard.After(t.Clock) {
		heardAt, heard = t.Now, t.Clock
	}
	at := silentAt(a, status, heard)
	if at != "" && at <= t.ClockText {
		return t.Run(`UPDATE heartbeats SET silent_at = ? WHERE agent = ? AND told_at = ''`, at, a.Name)
	}
	return t.Run(`
		INSERT INTO heartbeats (agent, heard_at, silent_at) VALUES (?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET silent_at = excluded.silent_at, told_at = ''`, a.Name, heardAt, at)
}

// LatestStatus returns an agent's last reported status in any session, and when the agent took it. The status is ""
// for an agent that takes part in no session.
func LatestStatus(c *store.Conn, agent string) (status orchestrator.PresenceStatus, since string, err error) {
	err = c.Query(`SELECT status, since FROM presence WHERE agent = ? ORDER BY since DESC, rowid DESC LIMIT 1`,
		func(row store.Row) error {
			status, since = orchestrator.PresenceStatus(row.Text(0)), row.Text(1)
			return nil
		}, agent)
	return status, since, err
}

// silentAt returns when the silence of an agent that was last heard of at the given time is reported. It is "" for
// an agent that is idle or stopped.
func silentAt(a *ledger.Agent, status orchestrator.PresenceStatus, heard time.Time) string {
	if status == orchestrator.Idle || status == orchestrator.Stopped {
		return ""
	}
	return orchestrator.Stamp(heard.Add(time.Duration(a.SilentAfter) * time.Second))
}

// storeHeartbeat records that an agent was heard of now, and when its silence is to be reported.
func storeHeartbeat(t *ledger.Tx, a *ledger.Agent) error {
	if a.SilentAfter == 0 {
		return nil // the agent no longer has a limit
	}
	if !t.IsAlone() {
		// Other transactions may run at the same time. The upsert locks the row, and a writer of the agent's status
		// updates the same row, so the status that is read below stays valid.
		if err := t.Run(`
			INSERT INTO heartbeats (agent, heard_at, silent_at) VALUES (?1, ?2, '')
			ON CONFLICT (agent) DO UPDATE SET heard_at = excluded.heard_at`, a.Name, t.Now); err != nil {
			return err
		}
	}
	status, _, err := LatestStatus(t.Conn, a.Name)
	if err != nil {
		return err
	}
	t.KeepSpan()
	return t.Run(`
		INSERT INTO heartbeats (agent, heard_at, silent_at) VALUES (?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET heard_at = excluded.heard_at, silent_at = excluded.silent_at, told_at = ''`,
		a.Name, t.Now, silentAt(a, status, t.Clock))
}

// Heartbeat records, in a transaction of its own, that an agent is alive although it found no messages. It returns
// how long the agent may be silent, or 0 for no limit. A failure is only logged, because the caller has another
// purpose. If marks is false, Heartbeat records nothing: a reader that does not mark messages as read may be
// someone other than the agent.
func Heartbeat(ctx context.Context, l *ledger.Ledger, name string, marks bool) time.Duration {
	conf := l.Config.Last()
	if !marks || conf == nil || conf.Agents[name] == nil || conf.Agents[name].SilentAfter == 0 {
		return 0
	}
	err := l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		t.Heartbeat(name)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		l.Log.Warn("cannot record the heartbeat of an agent", "agent", name, "error", err)
	}
	return time.Duration(conf.Agents[name].SilentAfter) * time.Second
}

// ReportSilent notifies the manager (the agent named by the setting ralph.pm) of agents that have been silent for
// longer than their limit, once for each silence. more is true if others remain for the next transaction.
func ReportSilent(t *ledger.Tx) (more bool, err error) {
	names, err := t.Texts(`SELECT agent FROM heartbeats WHERE silent_at <> '' AND silent_at <= ? AND agent < x''
		ORDER BY silent_at LIMIT +?`,
		t.ClockText, ledger.ReviewBatch)
	if err != nil {
		return false, err
	}
	told := 0
	for _, name := range names {
		failed, err := t.RowSavepoint("reporting the silence of "+name, "",
			func() error { return reportSilence(t, name) })
		if err != nil {
			return false, err
		}
		if !failed {
			told++
		}
	}
	return len(names) == ledger.ReviewBatch && told > 0, nil
}

// reportSilence notifies the manager of the silence of one agent.
func reportSilence(t *ledger.Tx, name string) error {
	heardAt, _, err := t.Text(`SELECT heard_at FROM heartbeats WHERE agent = ?`, name)
	if err != nil {
		return err
	}
	if err := t.Run(`UPDATE heartbeats SET silent_at = '', told_at = ? WHERE agent = ?`, t.Now, name); err != nil {
		return err
	}
	a := t.Config().Agents[name]
	if a == nil {
		return nil
	}
	status, _, err := LatestStatus(t.Conn, name)
	if err != nil {
		return err
	}
	last, _, err := t.Text(`SELECT message_id FROM agent_message WHERE `+ledger.Past+
		` AND sender = ? ORDER BY seq DESC LIMIT 1`, name)
	if err != nil {
		return err
	}
	payload := map[string]any{
		"agent": name, "silent_since": heardAt, "silent_after_seconds": a.SilentAfter, "status": status,
		"message": fmt.Sprintf("no sign of life from %s for more than %s", name,
			orchestrator.FormatDuration(time.Duration(a.SilentAfter)*time.Second)),
	}
	if last != "" {
		payload["last_message_id"] = last
	}
	return TellManager(t, "agent_timeout", name, payload)
}

// Manager returns the agent that is notified of problems with the agent about, or "" if there is none. A manager is
// not notified about itself, because a message that its failing session got would start that session again.
func Manager(conf *ledger.Config, about string) string {
	if name := conf.Settings.Manager; name != about && conf.Agents[name] != nil {
		return name
	}
	return ""
}

// SilenceUnreported reports whether nobody would be notified if an agent fell silent or its session failed,
// although the agent has a silence limit or a start command. It returns false for the manager itself.
func SilenceUnreported(conf *ledger.Config, name string) bool {
	a := conf.Agents[name]
	return a != nil && (a.SilentAfter > 0 || a.StartCommand != "") && name != conf.Settings.Manager &&
		Manager(conf, name) == ""
}

// Untold returns a warning that nobody is notified if this agent falls silent or its session fails, with advice. It
// returns "" if somebody is notified or if there would be nothing to report. Errors: those of the database.
func Untold(ctx context.Context, l *ledger.Ledger, name string) (note string, err error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return "", err
	}
	manager := conf.Settings.Manager
	if !SilenceUnreported(conf, name) {
		return "", nil
	}
	return fmt.Sprintf("Mailroom cannot notify anyone when %s falls silent or its session fails: there is no agent %s. "+
			"Run `mailroom agent add %s`, or choose another agent with `mailroom setting set ralph.pm NAME`", name, manager, manager),
		nil
}

// TellManager sends an urgent message about an agent, from orchestrator.SystemSender, to the manager (the agent
// named by the setting ralph.pm). If there is no manager to notify, it writes a log entry instead.
func TellManager(t *ledger.Tx, kind, about string, payload map[string]any) error {
	conf := t.Config()
	manager := Manager(conf, about)
	if manager == "" {
		t.AfterCommit(func() {
			t.Ledger.Log.Warn("cannot notify anyone: the setting ralph.pm does not name another agent",
				"ralph.pm", conf.Settings.Manager, "type", kind, "payload", payload,
				"do", "mailroom agent add "+conf.Settings.Manager+", or mailroom setting set ralph.pm NAME")
		})
		return nil
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	return t.Tell(&orchestrator.Draft{Sender: orchestrator.SystemSender, Recipient: manager, Type: kind, Payload: text,
		Priority: orchestrator.PriorityOf("urgent")})
}

// ClampSilences limits the silence deadlines to the agent's limit from now. Later deadlines result from a clock
// that was set forward and then back.
func ClampSilences(t *ledger.Tx) error {
	return t.Run(`
		UPDATE heartbeats
		SET silent_at = strftime('%Y-%m-%dT%H:%M:%fZ', ?1,
		        '+' || (SELECT silent_after_seconds FROM agents WHERE name = heartbeats.agent) || ' seconds')
		WHERE silent_at <> '' AND silent_at > strftime('%Y-%m-%dT%H:%M:%fZ', ?1,
		        '+' || (SELECT silent_after_seconds FROM agents WHERE name = heartbeats.agent) || ' seconds')`,
		t.ClockText)
}
