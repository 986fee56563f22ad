-- Messages that have no trace.
-- Another program inserted these rows with SQL, and no delivery run has imported them yet.
-- columns: message_id, sender, recipient, status
SELECT message_id, sender, recipient, status
FROM agent_message m
WHERE NOT EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id)
ORDER BY seq
