package questions

import (
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
)

// Part returns the functions that questions, alerts and devices add to the ledger.
func Part() *ledger.Part {
	return &ledger.Part{
		Name:         "questions",
		Prefix:       push.DevicePrefix,
		Recipients:   readDevices,
		Secret:       pushSecret,
		Tried:        pushedTo,
		Gone:         deviceGone,
		Pointless:    pushIsOver,
		HasDevice:    HasDevice,
		AgentRemoved: withdrawQuestions,
		Chore: &ledger.Chore{Table: "signal_questions", Where: "status = 'pending'", At: "expires_at",
			Longest: orchestrator.MaxTTL, Do: expireQuestions},
		Errand: &ledger.Errand{Due: func(c *store.Conn, _ time.Time) (bool, error) { return anyUnreturned(c) },
			Do: new(returner).returnAnswers},
		Over: []ledger.Rows{
			{Table: "signal_questions", Over: `ended_at <> '' AND ended_at < ?1`},
			{Table: "signal_alerts", Over: `created_at < ?1`},
			{Table: "signal_pairings", Over: `expires_at < ?1`},
		},
		Outside: `SELECT 'device ' || device_id || ' receives pushes at ' || push_host FROM signal_devices
			WHERE push_host <> '' ORDER BY 1`,
		Outdated: []store.Outdated{
			{
				Kind:  "devices",
				Valid: `SELECT device_id FROM signal_devices WHERE state <> 'revoked' AND ?1 <> ''`,
				End: `UPDATE signal_devices SET state = 'revoked', revoked_at = ?1, push_host = '', push_problem = ''
					WHERE device_id = ?2`,
			},
			{End: `DELETE FROM signal_subscriptions
				WHERE device_id IN (SELECT device_id FROM signal_devices WHERE revoked_at = ?1)`},
			{ // the key of its answer may be gone
				Kind:  "questions",
				Valid: `SELECT question_id FROM signal_questions WHERE status = 'pending' AND ?1 <> ''`,
				End:   `UPDATE signal_questions SET status = 'cancelled', ended_at = ?1 WHERE question_id = ?2`,
			},
			{End: `DELETE FROM signal_pairings WHERE ?1 <> ''`},
		},
	}
}
