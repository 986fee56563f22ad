-- Messages delivered again without having been replayed or set back by hand in between. There should be none.
-- ?1 now (unused). Columns: message_id, first_at, again_at.
SELECT a.message_id, a.at AS first_at, b.at AS again_at
FROM message_trace a JOIN message_trace b ON b.message_id = a.message_id AND b.id > a.id
WHERE ?1 IS NOT NULL AND a.event = 'delivered' AND b.event = 'delivered'
  AND NOT EXISTS (SELECT 1 FROM message_trace r WHERE r.message_id = a.message_id AND r.id > a.id AND r.id < b.id
                  AND r.event IN ('replayed','adopted'))
ORDER BY b.id
