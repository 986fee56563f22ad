-- How often each command ran in the last N hours, and how long it took.
-- Scheduled runs that changed nothing leave no trace, so they are not counted.
-- params: hours=24
-- columns: name, runs, errors, mean_seconds, longest_seconds
SELECT name, count(*) AS runs, count(*) FILTER (WHERE status = 'ERROR') AS errors,
       round(avg((julianday(ended_at) - julianday(started_at)) * 86400), 3) AS mean_seconds,
       round(max((julianday(ended_at) - julianday(started_at)) * 86400), 3) AS longest_seconds
FROM command_trace
WHERE started_at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours') AND ended_at <> ''
GROUP BY name ORDER BY longest_seconds DESC, name
