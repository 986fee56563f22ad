-- Messages with a status that differs from the last status in their trace.
-- Somebody has changed these messages with SQL since the last delivery run. If a delivery run does not remove a message
-- from the list, Mailroom has a bug.
-- columns: message_id, status, traced
WITH replayed AS (
    SELECT m.seq, m.message_id, m.status,
           (SELECT t.new_status FROM message_trace t WHERE t.message_id = m.message_id AND t.new_status IS NOT NULL
            ORDER BY t.id DESC LIMIT 1) AS traced
    FROM agent_message m
    WHERE EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id)
)
SELECT message_id, status, traced
FROM replayed
WHERE status IS DISTINCT FROM traced
ORDER BY seq
