-- Messages that were read more than N minutes ago and have not been acknowledged.
-- Their readers may have died. After a message is read, Mailroom does not give it to another reader.
-- params: minutes=60
-- columns: message_id, sender, recipient, read_at
SELECT message_id, sender, recipient, read_at
FROM agent_message
WHERE read_at <> '' AND acknowledged_at = '' AND NOT (sender = recipient AND multicast_id IS NOT NULL) AND read_at < strftime('%Y-%m-%dT%H:%M:%fZ', ?1, '-' || ?2 || ' minutes')
ORDER BY read_at, seq
