-- Messages during whose delivery a process died.
-- A message that counts up here may be what kills the process; after some deaths it climbs the ladder and fails.
-- columns: message_id, recipient, status, crashes, last_error
SELECT message_id, recipient, status, crashes, error_message AS last_error
FROM agent_message
WHERE crashes > 0
ORDER BY crashes DESC, seq
