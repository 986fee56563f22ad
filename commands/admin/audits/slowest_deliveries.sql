-- The messages that took longest from creation to delivery.
-- params: 20
-- ?1 now (unused), ?2 how many. Columns: message_id, sender, recipient, created_at, delivered_at, seconds, retries.
SELECT message_id, sender, recipient, created_at, delivered_at,
       round((julianday(delivered_at) - julianday(created_at)) * 86400, 3) AS seconds, retry_count AS retries
FROM agent_message
WHERE delivered_at IS NOT NULL AND ?1 IS NOT NULL
ORDER BY seconds DESC, seq LIMIT CAST(?2 AS INTEGER)
