-- Messages that stand unread in an inbox, oldest first.
-- Nobody waits under that name, or what waits is busy.
-- columns: recipient, message_id, delivered_at, unread_seconds
SELECT recipient, message_id, delivered_at,
       CAST(round((julianday(?1) - julianday(delivered_at)) * 86400) AS INTEGER) AS unread_seconds
FROM agent_inbox
WHERE read_at = ''
ORDER BY delivered_at, rowid
