-- Delivered messages of the given type that their recipient has not answered, oldest first.
-- An answer is a message from the recipient that has the ID of the original message in `reply_to`.
-- params: message_type=question
-- columns: message_id, sender, recipient, delivered_at, waiting_seconds
SELECT message_id, sender, recipient, delivered_at,
       CAST(round((julianday(?1) - julianday(delivered_at)) * 86400) AS INTEGER) AS waiting_seconds
FROM agent_message m
WHERE message_type = ?2 AND status = 'delivered'
  AND recipient NOT LIKE 'thread:%' -- a thread answers nobody
  AND NOT EXISTS (SELECT 1 FROM agent_message r WHERE r.reply_to = m.message_id AND r.sender = m.recipient)
ORDER BY delivered_at, seq
