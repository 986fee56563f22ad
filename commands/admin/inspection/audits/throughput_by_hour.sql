-- How many messages were created, delivered, and read, and how many became dead letters, in each of the last N hours.
-- `given_up` counts the messages that became dead letters. Hours are in UTC. Hours without events are left out. A
-- refused send counts in `created` and in `given_up`.
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
