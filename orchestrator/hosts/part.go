package hosts

import (
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Part returns what the sessions of agent hosts add to the engine: Sessions that ended long ago are deleted. A
// removed agent loses its sessions. A restored backup brings back neither sessions nor the secret of their marks.
// No other session is started for an agent beside a session that gets its messages. Agents that were added for
// processes are removed after these have ended.
func Part() *ledger.Part {
	return &ledger.Part{
		Name: "hosts",
		Forget: func(t *ledger.Tx, agent string) error {
			if err := t.Run(`DELETE FROM given_names WHERE agent = ?`, agent); err != nil {
				return err
			}
			if err := cost.Forget(t, agent); err != nil {
				return err
			}
			return t.Run(`DELETE FROM host_sessions WHERE agent = ?`, agent)
		},
		AgentRemoved: dropHolds,
		Attended:     attended,
		Errand:       &ledger.Errand{Due: anyEnded, Do: new(ender).endNames},
		Over:         []ledger.Rows{{Table: "host_sessions", Over: `seen_at < ?1`, Idle: true}},
		Outdated: []store.Outdated{
			{End: `UPDATE host_sessions SET state = 'ended', pid = 0, waiter_pid = 0 WHERE ?1 <> ''`},
			{End: `DELETE FROM agent_secrets WHERE agent = '' AND ?1 <> ''`},
		},
	}
}
