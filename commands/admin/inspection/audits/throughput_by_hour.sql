-- Messages created, delivered, given up and read in each of the last hours.
-- Hours are UTC. Hours in which nothing happened are left out. A refused send counts as created and given up.
-- params: hours=24
-- columns: hour, created, delivered, given_up, was_read
SELECT substr(at, 1, 13) || ':00Z' AS hour,
       count(*) FILTER (WHERE event = 'created' OR (event = 'adopted' AND old_status IS NULL)) AS created,
       count(*) FILTER (WHERE event = 'delivered') AS delivered,
       count(*) FILTER (WHERE new_status IN ('failed','expired') AND old_status IS DISTINCT FROM new_status) AS given_up,
       count(*) FILTER (WHERE event = 'read') AS was_read
FROM message_trace
WHERE at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours')
GROUP BY hour ORDER BY hour
