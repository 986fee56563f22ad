-- Commands that failed in the last N hours, newest first.
-- Use `trace_id` to find everything else that the same request did.
-- params: hours=24
-- columns: started_at, name, caller, actor, error_type, message, trace_id
SELECT started_at, name, caller, actor, json_extract(attributes, '$."error.type"') AS error_type,
       status_message AS message, trace_id
FROM command_trace
WHERE status = 'ERROR' AND started_at >= strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' hours')
ORDER BY started_at DESC, id DESC
