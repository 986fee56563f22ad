-- Unread messages in inboxes, oldest first.
-- Either no process is waiting for the recipient's messages, or the reader is busy. A leased message is listed only
-- after its lease has ended.
-- columns: recipient, message_id, delivered_at, unread_seconds
SELECT recipient, message_id, delivered_at,
       CAST(round((julianday(?1) - julianday(delivered_at)) * 86400) AS INTEGER) AS unread_seconds
FROM (SELECT recipient, message_id, delivered_at, rowid AS place FROM agent_inbox WHERE read_at = ''
      UNION ALL
      SELECT i.recipient, i.message_id, i.delivered_at, i.rowid
      FROM reading_lease l JOIN agent_inbox i USING (message_id, recipient) LEFT JOIN agent_message m USING (message_id, recipient)
      WHERE l.until <= ?1 AND i.read_at <> '' AND coalesce(m.read_at, '') = '') AS unread
ORDER BY delivered_at, place
