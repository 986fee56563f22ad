package orchestrator

// questionsPart adds questions and alerts to the engine, and the devices that show them.
func questionsPart() *Part {
	return &Part{
		Name:         "questions",
		Prefix:       DevicePrefix,
		Recipients:   readDevices,
		Secret:       (*tx).pushSecret,
		Tried:        (*tx).pushedTo,
		Gone:         (*tx).deviceGone,
		Pointless:    (*tx).pushIsOver,
		HasDevice:    (*Conn).hasDevice,
		AgentRemoved: (*tx).withdrawQuestions,
		Chore:        &Chore{Table: "signal_questions", Where: "status = 'pending'", At: "expires_at", Longest: MaxTTL, Do: (*tx).expireQuestions},
		Errand:       &Errand{Due: (*Conn).unreturned, Do: new(returner).returnAnswers},
		Over: []Rows{
			{Table: "signal_questions", Over: `ended_at <> '' AND ended_at < ?1`},
			{Table: "signal_alerts", Over: `created_at < ?1`},
			{Table: "signal_pairings", Over: `expires_at < ?1`},
		},
	}
}
