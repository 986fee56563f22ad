-- Rows that no trace tells of.
-- They were written by hand, and no delivery run has come by yet to adopt them.
-- columns: message_id, sender, recipient, status
SELECT message_id, sender, recipient, status
FROM agent_message m
WHERE NOT EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id)
ORDER BY seq
