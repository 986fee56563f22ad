package ledger

import (
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Heartbeat notes that an agent is alive: it sent, read or acknowledged something. It is stored once, at the end of the
// request, and only for an agent that has a limit to its silence.
func (t *Tx) Heartbeat(name string) {
	if a := t.Config().Agents[name]; a != nil && a.SilentAfter > 0 && !slices.Contains(t.heartbeats, name) {
		t.heartbeats = append(t.heartbeats, name)
	}
}

// storeHeartbeats stores the heartbeats of this request. Its other changes must have been made: of what an agent says that it
// does depends when its silence is reported.
func (t *Tx) storeHeartbeats() error {
	for _, name := range t.heartbeats {
		if err := t.storeHeartbeat(name); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) storeHeartbeat(name string) error {
	a := t.Config().Agents[name]
	if a == nil || a.SilentAfter == 0 {
		return nil // not any more
	}
	status, _, err := LatestStatus(t.Conn, name)
	if err != nil {
		return err
	}
	t.KeepSpan()
	_, err = t.Exec(`
		INSERT INTO heartbeats (agent, heard_at, silent_at) VALUES (?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET heard_at = excluded.heard_at, silent_at = excluded.silent_at, told_at = ''`,
		name, t.Now, a.SilentAt(status, t.Clock))
	return err
}

// LatestStatus returns what an agent last said that it does, in any session, and since when. It is "" for an agent that takes
// part in no session.
func LatestStatus(c *store.Conn, agent string) (status orchestrator.PresenceStatus, since string, err error) {
	err = c.Query(`SELECT status, since FROM presence WHERE agent = ? ORDER BY since DESC, rowid DESC LIMIT 1`, func(row store.Row) error {
		status, since = orchestrator.PresenceStatus(row.Text(0)), row.Text(1)
		return nil
	}, agent)
	return status, since, err
}

// SilentAt is when the silence of an agent that was heard at a time is reported. Only who works can be silent.
func (a *Agent) SilentAt(status orchestrator.PresenceStatus, heard time.Time) string {
	if status == orchestrator.Idle || status == orchestrator.Stopped {
		return ""
	}
	return orchestrator.Stamp(heard.Add(time.Duration(a.SilentAfter) * time.Second))
}
