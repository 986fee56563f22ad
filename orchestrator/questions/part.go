package questions

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
)

// Part returns what questions, alerts and devices add to the engine.
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
		Chore:        &ledger.Chore{Table: "signal_questions", Where: "status = 'pending'", At: "expires_at", Longest: orchestrator.MaxTTL, Do: expireQuestions},
		Errand:       &ledger.Errand{Due: anyUnreturned, Do: new(returner).returnAnswers},
		Over: []ledger.Rows{
			{Table: "signal_questions", Over: `ended_at <> '' AND ended_at < ?1`},
			{Table: "signal_alerts", Over: `created_at < ?1`},
			{Table: "signal_pairings", Over: `expires_at < ?1`},
		},
	}
}
