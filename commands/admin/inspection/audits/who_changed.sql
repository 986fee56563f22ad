-- What each process did to messages in the last N hours.
-- An actor is the value of `ORCHESTRATOR_INSTANCE_ID`. If that variable is not set, the actor is HOST-PID. The event
-- `adopted` means that the process found a row that somebody had inserted or changed with SQL.
-- params: hours=24
-- columns: actor, event, times, latest_at
SELECT actor, event, count(*) AS times, max(at) AS latest_at
FROM message_trace
WHERE at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours')
GROUP BY actor, event ORDER BY actor, times DESC, event
