package agents

import (
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Part returns what agents add to the engine. Heartbeats are stored. Retention deletes presences in sessions that
// have ended, and tokens that are no longer valid. A restore brings back no revoked token, no token of a removed
// agent, and no session of the console.
func Part() *ledger.Part {
	return &ledger.Part{
		Name:  "agents",
		Heard: storeHeartbeat,
		Over: []ledger.Rows{
			{Table: "presence", Idle: true, Over: overPresence},
			{Table: "tokens", Over: `(revoked_at <> '' AND revoked_at < ?1 OR expires_at <> '' AND expires_at < ?1)`},
		},
		Outside: `
			SELECT 'agent ' || name || ' gets messages through ' || deliver || CASE WHEN deliver LIKE 'exec:%'
				AND folder <> '' THEN ', in ' || folder ELSE '' END
			FROM agents WHERE deliver <> 'inbox'
			UNION ALL SELECT 'agent ' || name || ' has the fallback ' || fallback FROM agents WHERE fallback <> ''
			UNION ALL SELECT 'agent ' || name || ' is started by ' || start_command || CASE WHEN folder <> '' THEN ', in ' || folder ELSE '' END
			FROM agents WHERE start_command <> ''
			UNION ALL SELECT 'commands of agent ' || name || ' get the environment variables ' || pass_env FROM agents
				WHERE pass_env <> ''
			UNION ALL SELECT 'agent ' || name || ' may have an address in a private network' FROM agents
				WHERE allow_private <> 0 ORDER BY 1`,
		Outdated: []store.Outdated{
			{End: `DELETE FROM tokens WHERE agent = 'operator' AND ?1 <> ''`},
			{
				Kind:  "tokens",
				Valid: `SELECT hash FROM tokens WHERE revoked_at = '' AND (expires_at = '' OR expires_at > ?1)`,
				End:   `UPDATE tokens SET revoked_at = ?1 WHERE hash = ?2`,
			},
		},
	}
}

// overPresence selects presences in sessions in which nobody takes part any more and that have no thread in use.
const overPresence = `seen_at < ?1
		AND NOT EXISTS (SELECT 1 FROM presence o WHERE o.session_id = presence.session_id AND o.seen_at >= ?1)
		AND NOT EXISTS (SELECT 1 FROM threads h WHERE h.session_id = presence.session_id AND (h.status = 'open' OR h.closed_at >= ?1))`
