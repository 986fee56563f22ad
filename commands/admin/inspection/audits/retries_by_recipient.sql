-- Failed attempts in the last N hours by recipient, with the most frequent reason.
-- Failed attempts to deliver messages that have since been deleted are listed under the recipient `''`, with their
-- reasons.
-- params: hours=24
-- columns: recipient, failed_attempts, messages, most_frequent_reason
WITH failures AS (
    SELECT coalesce(m.recipient, a.recipient, '') AS recipient, t.message_id, t.error
    FROM message_trace t
    LEFT JOIN agent_message m ON m.message_id = t.message_id
    LEFT JOIN agent_message_archive a ON a.message_id = t.message_id
    WHERE t.event = 'attempt_failed' AND t.at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours')
)
SELECT recipient, count(*) AS failed_attempts, count(DISTINCT message_id) AS messages,
       (SELECT error FROM failures g WHERE g.recipient = f.recipient
        GROUP BY error ORDER BY count(*) DESC, error LIMIT 1) AS most_frequent_reason
FROM failures f
GROUP BY recipient ORDER BY failed_attempts DESC, recipient
