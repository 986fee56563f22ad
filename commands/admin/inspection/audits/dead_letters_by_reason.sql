-- Dead letters, counted by reason.
-- Remove the cause, then run `mailroom dead_letters replay`.
-- columns: reason, recipient, messages, latest_at
SELECT error_message AS reason, recipient, count(*) AS messages, max(ended_at) AS latest_at
FROM dead_letter
GROUP BY error_message, recipient ORDER BY messages DESC, reason, recipient
