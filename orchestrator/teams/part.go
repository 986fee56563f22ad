package teams

import "mailroom/orchestrator/ledger"

// Part returns the part that handles teams. Plain answers decide requests, open requests end when one of their agents
// is removed, and the lead is notified when the session of a member ends.
func Part() *ledger.Part {
	return &ledger.Part{
		Name:         "teams",
		Replying:     answerByReply,
		Forget:       void("responder"), // no other agent can answer
		AgentRemoved: void("requester"), // the answers are for no other agent
		Replayed:     reopenRequest,
		SessionEnded: turnsOver,
		Over: []ledger.Rows{{Table: "team_requests", Over: `created_at < ?1 AND (answered_at <> '' AND answered_at < ?1
		OR NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = team_requests.message_id)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = team_requests.message_id))`}},
	}
}

// void returns a function that ends the open requests whose column holds the given agent.
func void(column string) func(t *ledger.Tx, agent string) error {
	return func(t *ledger.Tx, agent string) error {
		return t.Run(`UPDATE team_requests SET status = 'void' WHERE status = 'open' AND `+column+` = ?`, agent)
	}
}
