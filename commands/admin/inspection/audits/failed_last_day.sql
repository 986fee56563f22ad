-- Messages that failed or expired in the last N hours, newest first.
-- Mailroom deletes these messages after 7 days, so a value above 168 adds no rows.
-- params: hours=24
-- columns: ended_at, message_id, sender, recipient, message_type, status, retries, reason
SELECT ended_at, message_id, sender, recipient, message_type, status, retry_count AS retries, error_message AS reason
FROM agent_message
WHERE status IN ('failed','expired') AND ended_at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours')
ORDER BY ended_at DESC, seq DESC
