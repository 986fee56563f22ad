-- From version 4 to 5: readers hold what they took under a lease. Once version 5 is released this file stays as it is; a later
-- version changes what it makes by a file of its own.

ALTER TABLE agent_message ADD COLUMN not_before TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_message_archive ADD COLUMN not_before TEXT NOT NULL DEFAULT '';
ALTER TABLE thread_participants ADD COLUMN read_seq INTEGER NOT NULL DEFAULT 0;
UPDATE thread_participants SET read_seq = (SELECT coalesce(max(seq), 0) FROM agent_message);

-- What its sender wants later holds back nobody, and is no rung.
DROP INDEX agent_message_later;
DROP INDEX agent_message_put_off;
CREATE INDEX agent_message_later ON agent_message (next_attempt_at)
    WHERE status IN ('pending','retry') AND next_attempt_at <> '' AND next_attempt_at <> not_before;
CREATE INDEX agent_message_wanted_later ON agent_message (next_attempt_at)
    WHERE status IN ('pending','retry') AND not_before <> '' AND next_attempt_at = not_before;
CREATE INDEX agent_message_put_off ON agent_message (recipient, sender, priority, next_attempt_at)
    WHERE status = 'pending' AND next_attempt_at <> '' AND next_attempt_at <> not_before;

-- A lease on a row that is not live counts for nothing.
DROP INDEX agent_message_leased;
CREATE INDEX agent_message_leased ON agent_message (recipient, sender)
    WHERE status IN ('pending','retry') AND lease_token <> '';

-- x'' is greater than any text: rows with a BLOB where a name, an id or a status should stand are adopted, too.
DROP INDEX agent_message_untraced;
CREATE INDEX agent_message_untraced ON agent_message (seq)
    WHERE traced_status IS NOT status OR message_id >= x'' OR sender >= x'' OR recipient >= x'' OR status >= x'';

DROP INDEX team_requests_void;
CREATE INDEX team_requests_message ON team_requests (message_id);

ALTER TABLE waits ADD COLUMN filtered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE waits ADD COLUMN posts INTEGER NOT NULL DEFAULT 0;

CREATE TABLE reading_lease (
    message_id        TEXT NOT NULL,
    recipient         TEXT NOT NULL,
    holder            TEXT NOT NULL DEFAULT '',        -- what took it: wait, a hook
    session           TEXT NOT NULL DEFAULT '',        -- of the agent's host
    host              TEXT NOT NULL DEFAULT '',        -- where pid counts: machine and PID namespace
    pid               INTEGER NOT NULL DEFAULT 0,      -- process whose end ends the lease; 0: only until does
    born              TEXT NOT NULL DEFAULT '',        -- when that process was born, since numbers are used again
    shown_at          TEXT NOT NULL,
    until             TEXT NOT NULL,                   -- when it ends unless the message is acknowledged
    PRIMARY KEY (message_id, recipient)
);
CREATE INDEX reading_lease_until ON reading_lease (until);
CREATE INDEX reading_lease_recipient ON reading_lease (recipient, until);

CREATE TABLE removed_agents (
    name              TEXT PRIMARY KEY,
    role              TEXT NOT NULL DEFAULT '',
    removed_at        TEXT NOT NULL,
    removed_by        TEXT NOT NULL DEFAULT ''         -- agent that asked; '' is the administrator
);

CREATE VIEW inbox_reading AS
    SELECT recipient, message_id FROM agent_inbox WHERE read_at = '';
CREATE TRIGGER inbox_reading_insert INSTEAD OF INSERT ON inbox_reading BEGIN
    UPDATE agent_inbox SET read_at = strftime('%Y-%m-%dT%H:%M:%fZ','now')
    WHERE recipient = NEW.recipient AND message_id = NEW.message_id;
    INSERT INTO message_trace (message_id, at, event, old_status, new_status, actor)
    SELECT message_id, strftime('%Y-%m-%dT%H:%M:%fZ','now'), 'read', 'delivered', 'delivered', NEW.recipient || '_inbox'
    FROM agent_inbox WHERE recipient = NEW.recipient AND message_id = NEW.message_id;
    UPDATE agent_message SET read_at = strftime('%Y-%m-%dT%H:%M:%fZ','now'), review_at = ''
    WHERE message_id = NEW.message_id AND recipient = NEW.recipient AND status = 'delivered';
    UPDATE agent_message_archive SET read_at = strftime('%Y-%m-%dT%H:%M:%fZ','now')
    WHERE message_id = NEW.message_id AND recipient = NEW.recipient AND read_at = '';
END;
