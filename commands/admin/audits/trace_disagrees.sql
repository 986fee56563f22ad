-- Messages whose last traced status is not the one in the table: changed by hand since, or a bug.
-- ?1 now (unused). Columns: message_id, status, traced.
SELECT m.message_id, m.status,
       (SELECT t.new_status FROM message_trace t WHERE t.message_id = m.message_id AND t.new_status IS NOT NULL ORDER BY t.id DESC LIMIT 1) AS traced
FROM agent_message m
WHERE ?1 IS NOT NULL AND EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id) AND m.status IS NOT
      (SELECT t.new_status FROM message_trace t WHERE t.message_id = m.message_id AND t.new_status IS NOT NULL ORDER BY t.id DESC LIMIT 1)
ORDER BY m.seq
