-- Messages during whose delivery a process died.
-- A message with a growing count may be what kills the process. After some deaths it counts as a failed attempt.
-- columns: message_id, recipient, status, crashes, last_error
SELECT message_id, recipient, status, crashes, error_message AS last_error
FROM agent_message
WHERE crashes > 0
ORDER BY crashes DESC, seq
