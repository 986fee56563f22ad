-- Messages that a session of an agent host was shown, or a reader was handed under a lease, and that are not known to be read.
-- session is the host's name of its session, and pid its process; without a session the reader is whoever called. The lease ends at
-- until, or with that process, and then the message is unread again.
-- columns: message_id, recipient, holder, session, pid, shown_at, until
SELECT l.message_id, l.recipient, l.holder, l.session, l.pid, l.shown_at, l.until
FROM reading_lease l LEFT JOIN agent_message m USING (message_id, recipient)
WHERE coalesce(m.read_at, '') = ''
ORDER BY l.shown_at, l.recipient, l.message_id
