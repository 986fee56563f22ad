-- The messages that took longest from creation to delivery.
-- Messages that were delivered more than 7 days ago are archived, so they are not listed.
-- params: messages=20
-- columns: message_id, sender, recipient, created_at, delivered_at, seconds, retries
SELECT message_id, sender, recipient, created_at, delivered_at,
       round((julianday(delivered_at) - julianday(created_at)) * 86400, 3) AS seconds, retry_count AS retries
FROM agent_message
WHERE delivered_at IS NOT NULL
ORDER BY seconds DESC, seq LIMIT CAST(?2 AS INTEGER)
