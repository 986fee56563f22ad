-- Messages that were being delivered when the delivering process died.
-- If the `crashes` value of a message keeps growing, the message may be crashing the process. Mailroom counts one
-- failed attempt for every 3 crashes (setting `delivery.crashes_per_rung`).
-- columns: message_id, recipient, status, crashes, last_error
SELECT message_id, recipient, status, crashes, error_message AS last_error
FROM agent_message
WHERE crashes > 0
ORDER BY crashes DESC, seq
