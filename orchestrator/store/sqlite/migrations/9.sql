-- From version 8 to 9: counts of messages, how far the traces were sent, an index of dead letters, and what ends a reading lease. Once version 9 is released this file stays as it
-- is; a later version changes what it makes by a file of its own.

CREATE TABLE message_count (
    recipient         TEXT NOT NULL,
    state             TEXT NOT NULL,
    n                 INTEGER NOT NULL,
    PRIMARY KEY (recipient, state)
);
CREATE TRIGGER agent_message_deleted AFTER DELETE ON agent_message
    WHEN OLD.traced_status IN ('pending','retry','delivered','failed','expired','cancelled') BEGIN
    UPDATE message_count SET n = n - 1 WHERE recipient = OLD.recipient AND state = OLD.traced_status
       AND OLD.seq <= (SELECT n FROM message_count WHERE recipient = '' AND state = 'counted');
END;
CREATE TRIGGER agent_message_disowned AFTER UPDATE OF traced_status ON agent_message
    WHEN NEW.traced_status NOT IN ('pending','retry','delivered','failed','expired','cancelled')
     AND OLD.traced_status IN ('pending','retry','delivered','failed','expired','cancelled') BEGIN
    UPDATE message_count SET n = n - 1 WHERE recipient = OLD.recipient AND state = OLD.traced_status
       AND OLD.seq <= (SELECT n FROM message_count WHERE recipient = '' AND state = 'counted');
END;
CREATE TRIGGER agent_message_moved AFTER UPDATE OF recipient, seq ON agent_message
    WHEN (NEW.recipient IS NOT OLD.recipient OR NEW.seq <> OLD.seq)
     AND OLD.traced_status IN ('pending','retry','delivered','failed','expired','cancelled') BEGIN
    UPDATE message_count SET n = n - 1 WHERE recipient = OLD.recipient AND state = OLD.traced_status
       AND OLD.seq <= (SELECT n FROM message_count WHERE recipient = '' AND state = 'counted');
    INSERT INTO message_count (recipient, state, n)
    SELECT NEW.recipient, OLD.traced_status, 1
     WHERE NEW.seq <= (SELECT n FROM message_count WHERE recipient = '' AND state = 'counted')
    ON CONFLICT (recipient, state) DO UPDATE SET n = message_count.n + 1;
END;
CREATE TRIGGER agent_inbox_read AFTER UPDATE OF read_at ON agent_inbox WHEN (NEW.read_at = '') <> (OLD.read_at = '') BEGIN
    INSERT INTO message_count (recipient, state, n) VALUES (NEW.recipient, 'unread', CASE NEW.read_at WHEN '' THEN 1 ELSE -1 END)
    ON CONFLICT (recipient, state) DO UPDATE SET n = message_count.n + excluded.n;
END;
CREATE TRIGGER agent_inbox_deleted AFTER DELETE ON agent_inbox WHEN OLD.read_at = '' BEGIN
    UPDATE message_count SET n = n - 1 WHERE recipient = OLD.recipient AND state = 'unread';
END;
CREATE TRIGGER agent_message_archive_deleted AFTER DELETE ON agent_message_archive BEGIN
    UPDATE message_count SET n = n - 1 WHERE recipient = '' AND state = 'archived';
END;

CREATE TABLE traffic (
    span              TEXT NOT NULL,
    at                TEXT NOT NULL,
    recipient         TEXT NOT NULL,
    sent              INTEGER NOT NULL DEFAULT 0,
    delivered         INTEGER NOT NULL DEFAULT 0,
    read              INTEGER NOT NULL DEFAULT 0,
    attempts_failed   INTEGER NOT NULL DEFAULT 0,
    failed            INTEGER NOT NULL DEFAULT 0,
    expired           INTEGER NOT NULL DEFAULT 0,
    cancelled         INTEGER NOT NULL DEFAULT 0,
    wrote             INTEGER NOT NULL DEFAULT 0,
    queued_ms         TEXT NOT NULL DEFAULT '{}',
    delivered_ms      TEXT NOT NULL DEFAULT '{}',
    read_ms           TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (span, at, recipient)
);

CREATE TABLE exports (
    name              TEXT PRIMARY KEY,
    events            INTEGER NOT NULL DEFAULT 0,
    spans             INTEGER NOT NULL DEFAULT 0,
    waiting           TEXT NOT NULL DEFAULT '[]',
    refused           INTEGER NOT NULL DEFAULT 0,
    missed            INTEGER NOT NULL DEFAULT 0,
    sent_at           TEXT NOT NULL DEFAULT '',
    lease_owner       TEXT NOT NULL DEFAULT '',
    lease_token       TEXT NOT NULL DEFAULT '',
    lease_until       TEXT NOT NULL DEFAULT ''
);

INSERT INTO message_count (recipient, state, n)
SELECT recipient, traced_status, count(*) FROM agent_message
WHERE seq <= 9007199254740992 AND traced_status IN ('pending','retry','delivered','failed','expired','cancelled') GROUP BY recipient, traced_status
UNION ALL SELECT recipient, 'unread', count(*) FROM agent_inbox WHERE read_at = '' GROUP BY recipient
UNION ALL SELECT '', 'archived', count(*) FROM agent_message_archive
UNION ALL SELECT '', 'counted', coalesce(max(seq), 0) FROM agent_message WHERE seq <= 9007199254740992;

CREATE INDEX agent_message_dead ON agent_message (seq)
    WHERE status IN ('failed','expired');

ALTER TABLE reading_lease ADD COLUMN ends TEXT NOT NULL DEFAULT 'time';
UPDATE reading_lease SET ends = 'session' WHERE session <> '';
