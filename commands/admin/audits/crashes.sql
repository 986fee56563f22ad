-- Messages during whose delivery a process died.
-- ?1 now (unused). Columns: message_id, recipient, status, crashes, last_error.
SELECT message_id, recipient, status, crashes, error_message AS last_error
FROM agent_message
WHERE crashes > 0 AND ?1 IS NOT NULL
ORDER BY crashes DESC, seq
