-- Messages that have been undelivered for more than N minutes, oldest first.
-- For a message with a `not_before` time, the wait starts at that time. To see why a message is waiting, run
-- `mailroom why ID`.
-- params: minutes=5
-- columns: message_id, sender, recipient, status, created_at, waiting_seconds, next_attempt_at, last_error
SELECT message_id, sender, recipient, status, created_at,
       CAST(round((julianday(?1) - julianday(CASE WHEN not_before > created_at THEN not_before ELSE created_at END)) * 86400) AS INTEGER) AS waiting_seconds,
       next_attempt_at, error_message AS last_error
FROM agent_message
WHERE status IN ('pending','retry') AND created_at < strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' minutes')
  AND not_before < strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' minutes')
ORDER BY created_at, seq
