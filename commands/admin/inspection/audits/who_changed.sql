-- Which process did what to messages over the last hours.
-- An actor is ORCHESTRATOR_INSTANCE_ID, or HOST-PID. `adopted` means that it noticed a change made by hand.
-- params: hours=24
-- columns: actor, event, times, latest_at
SELECT actor, event, count(*) AS times, max(at) AS latest_at
FROM message_trace
WHERE at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours')
GROUP BY actor, event ORDER BY actor, times DESC, event
