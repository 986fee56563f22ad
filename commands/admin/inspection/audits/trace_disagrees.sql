-- Messages whose trace, replayed, ends in another status than the table has.
-- Somebody changed them by hand since the last delivery run. A message that is still listed after one is a bug.
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
