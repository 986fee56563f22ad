-- Messages that were shown in a host's session or leased to a reader, and that are not yet confirmed as read.
-- `session` is the host's name for the session. If `session` is empty, the agent got the message with a command or
-- tool, such as `mailroom wait`. The lease ends at the time in `until`, or when the process in `pid` ends. The message
-- is then unread again.
-- columns: message_id, recipient, holder, session, pid, shown_at, until
SELECT l.message_id, l.recipient, l.holder, l.session, l.pid, l.shown_at, l.until
FROM reading_lease l LEFT JOIN agent_message m USING (message_id, recipient)
WHERE coalesce(m.read_at, '') = ''
ORDER BY l.shown_at, l.recipient, l.message_id
