package hosts

import (
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Part returns what the sessions of agent hosts add to the engine: those that are long over are deleted, an agent that
// is removed has none, a backup brings neither them back nor the secret of their marks, and no other session is started
// for an agent beside one that gets its messages. Agents that were added for processes are removed once these have
// ended.
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
