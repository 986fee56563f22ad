-- Dead letters counted by what they died of.
-- ?1 now (unused). Columns: reason, recipient, messages, latest_at.
SELECT error_message AS reason, recipient, count(*) AS messages, max(ended_at) AS latest_at
FROM dead_letter
WHERE ?1 IS NOT NULL
GROUP BY error_message, recipient ORDER BY messages DESC, reason, recipient
