-- Messages that were delivered again although nobody had replayed them or reset their status with SQL.
-- The list should be empty.
-- columns: message_id, first_at, again_at, first_actor, again_actor
SELECT a.message_id, a.at AS first_at, b.at AS again_at, a.actor AS first_actor, b.actor AS again_actor
FROM message_trace a JOIN message_trace b ON b.message_id = a.message_id AND b.id > a.id
WHERE a.event = 'delivered' AND b.event = 'delivered'
  AND NOT EXISTS (SELECT 1 FROM message_trace r WHERE r.message_id = a.message_id AND r.id > a.id AND r.id < b.id
                  AND r.event IN ('replayed','adopted','delivered'))
ORDER BY b.id
