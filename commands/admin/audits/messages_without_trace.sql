-- Rows that no trace tells of: written by hand, and not adopted yet.
-- ?1 now (unused). Columns: message_id, sender, recipient, status.
SELECT message_id, sender, recipient, status
FROM agent_message m
WHERE ?1 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id)
ORDER BY seq
