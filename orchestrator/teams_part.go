package orchestrator

// teamsPart adds the requests of teams to the engine, and tells their leads of members whose sessions end.
func teamsPart() *Part {
	return &Part{
		Name:         "teams",
		Replying:     (*tx).answerByReply,
		Replayed:     (*tx).reopenRequest,
		SessionEnded: (*tx).turnsOver,
		Over: []Rows{{Table: "team_requests", Over: `created_at < ?1 AND (answered_at <> '' AND answered_at < ?1
		OR NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = team_requests.message_id)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = team_requests.message_id))`}},
	}
}
