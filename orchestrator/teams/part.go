package teams

import "mailroom/orchestrator/ledger"

// Part returns what teams add to the engine: plain answers that decide a request, requests that end when an agent is
// removed, and leads that are told when the session of a member ends.
func Part() *ledger.Part {
	return &ledger.Part{
		Name:         "teams",
		Replying:     answerByReply,
		Forget:       voidAsked,
		AgentRemoved: voidAsking,
		Replayed:     reopenRequest,
		SessionEnded: turnsOver,
		Over: []ledger.Rows{{Table: "team_requests", Over: `created_at < ?1 AND (answered_at <> '' AND answered_at < ?1
		OR NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = team_requests.message_id)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = team_requests.message_id))`}},
	}
}

// voidAsked ends the requests to an agent that is removed: nobody else can answer them.
func voidAsked(t *ledger.Tx, agent string) error {
	_, err := t.Exec(`UPDATE team_requests SET status = 'void' WHERE status = 'open' AND responder = ?`, agent)
	return err
}

// voidAsking ends the requests of an agent that was removed: their answers are for nobody else.
func voidAsking(t *ledger.Tx, agent string) error {
	_, err := t.Exec(`UPDATE team_requests SET status = 'void' WHERE status = 'open' AND requester = ?`, agent)
	return err
}
