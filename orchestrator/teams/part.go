package teams

import "mailroom/orchestrator/ledger"

// Part returns what teams add to the engine: plain answers decide requests, requests end when an agent is removed,
// and leads are notified when the session of a member ends.
func Part() *ledger.Part {
	return &ledger.Part{
		Name:         "teams",
		Replying:     answerByReply,
		Forget:       void("responder"), // nobody else can answer
		AgentRemoved: void("requester"), // nobody else needs the answers
		Replayed:     reopenRequest,
		SessionEnded: turnsOver,
		Over: []ledger.Rows{{Table: "team_requests", Over: `created_at < ?1 AND (answered_at <> '' AND answered_at < ?1
		OR NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = team_requests.message_id)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = team_requests.message_id))`}},
	}
}

// void returns a function that ends the open requests whose column names the agent.
func void(column string) func(t *ledger.Tx, agent string) error {
	return func(t *ledger.Tx, agent string) error {
		return t.Run(`UPDATE team_requests SET status = 'void' WHERE status = 'open' AND `+column+` = ?`, agent)
	}
}
