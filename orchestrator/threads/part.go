package threads

import "mailroom/orchestrator/ledger"

// Part returns the part of the ledger that package threads adds: answers join the thread of the message that they
// answer, and an agent that is removed leaves its threads.
func Part() *ledger.Part {
	return &ledger.Part{
		Name:     "threads",
		Replying: joinThread,
		Forget:   leaveThreads,
		Over: []ledger.Rows{
			{Table: "threads", Over: `closed_at <> '' AND closed_at < ?1
		AND NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.thread_id = threads.thread_id)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.thread_id = threads.thread_id)`},
			{Table: "thread_participants", Over: `joined_at < ?1
		AND NOT EXISTS (SELECT 1 FROM threads h WHERE h.thread_id = thread_participants.thread_id)`},
		},
	}
}

// leaveThreads removes an agent from its threads. A thread without any other participant is closed, because no
// participant could close it later, and its posts would never age.
func leaveThreads(t *ledger.Tx, agent string) error {
	if err := t.Run(`
		UPDATE threads SET status = 'closed', summary = 'its last participant was removed', closed_at = ?2
		WHERE status = 'open' AND thread_id IN (SELECT thread_id FROM thread_participants WHERE agent = ?1)
		  AND NOT EXISTS (SELECT 1 FROM thread_participants p WHERE p.thread_id = threads.thread_id AND p.agent <> ?1)`,
		agent, t.Now); err != nil {
		return err
	}
	return t.Run(`DELETE FROM thread_participants WHERE agent = ?`, agent)
}
