-- Messages created, delivered and failed by hour over the last hours.
-- params: 24
-- ?1 now, ?2 hours. Columns: hour, created, delivered, failed.
SELECT substr(at, 1, 13) || ':00Z' AS hour, sum(event IN ('created','adopted') AND old_status IS NULL) AS created,
       sum(event = 'delivered') AS delivered, sum(event IN ('failed','expired')) AS failed
FROM message_trace
WHERE at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours')
GROUP BY hour ORDER BY hour
