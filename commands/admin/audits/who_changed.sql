-- Which process did what to messages over the last hours.
-- params: 24
-- ?1 now, ?2 hours. Columns: actor, event, times, latest_at.
SELECT actor, event, count(*) AS times, max(at) AS latest_at
FROM message_trace
WHERE at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours')
GROUP BY actor, event ORDER BY actor, times DESC, event
