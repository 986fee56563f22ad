package orchestrator

// RealInbox is transport.Inbox, which imports this package, so that only its external tests can fill it in.
var RealInbox Transport

// HotStatements are the statements whose plans are kept by TestQueryPlans.
var HotStatements = struct{ Due, Next, Untraced, Review, Leased, Lapsed, Ended, Retry string }{
	Due: `SELECT seq FROM agent_message m WHERE ` + due + ` AND recipient = ?2 AND delivery_marks = ''
		AND NOT EXISTS (SELECT 1 FROM agent_message l WHERE l.lease_token <> '' AND l.recipient = ?2 AND l.sender = m.sender)
		ORDER BY priority DESC, seq LIMIT ?3`,
	Next:     `SELECT recipient FROM agent_message WHERE ` + live + ` AND recipient > ? ORDER BY recipient LIMIT 1`,
	Untraced: `SELECT seq FROM agent_message WHERE traced_status IS NOT status ORDER BY seq LIMIT ?`,
	Review:   `SELECT seq FROM agent_message WHERE review_at <> '' AND review_at <= ? ORDER BY review_at LIMIT ?`,
	Leased:   `SELECT count(*) FROM agent_message WHERE lease_token <> '' AND lease_until <= ?`,
	Lapsed:   `SELECT ` + messageColumns + endedLeases,
	Ended:    `SELECT seq FROM agent_message WHERE ended_at <> '' AND ended_at < ? ORDER BY ended_at LIMIT ?`,
	Retry:    `SELECT min(next_attempt_at) FROM agent_message WHERE status = 'retry'`,
}
