package orchestrator

// threadsPart adds threads to the engine.
func threadsPart() *Part {
	return &Part{
		Name:     "threads",
		Replying: (*tx).joinThread,
		Over: []Rows{
			{Table: "threads", Over: `closed_at <> '' AND closed_at < ?1
		AND NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.thread_id = threads.thread_id)
		AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.thread_id = threads.thread_id)`},
			{Table: "thread_participants", Over: `joined_at < ?1
		AND NOT EXISTS (SELECT 1 FROM threads h WHERE h.thread_id = thread_participants.thread_id)`},
		},
	}
}
