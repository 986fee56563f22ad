-- Undelivered messages by recipient.
-- If a recipient has many undelivered messages, either no process is delivering to that recipient or its transport is
-- failing. See `retries_by_recipient`.
-- columns: recipient, pending, retry, leased, oldest_at, oldest_seconds
SELECT recipient, count(*) FILTER (WHERE status = 'pending') AS pending, count(*) FILTER (WHERE status = 'retry') AS retry,
       count(*) FILTER (WHERE lease_token <> '') AS leased,
       min(created_at) AS oldest_at,
       CAST(round((julianday(?1) - julianday(min(created_at))) * 86400) AS INTEGER) AS oldest_seconds
FROM agent_message
WHERE status IN ('pending','retry')
GROUP BY recipient ORDER BY recipient
