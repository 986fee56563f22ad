-- From version 2 to 3: messages leave the database. Once version 3 is released this file stays as it is; a later version
-- changes what it makes by a file of its own.

ALTER TABLE agent_message ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_message_archive ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE message_trace ADD COLUMN detail TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN concurrency INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN allow_private INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN folder TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN disabled TEXT NOT NULL DEFAULT '';

DROP INDEX agent_message_retry;
CREATE INDEX agent_message_later ON agent_message (next_attempt_at)
    WHERE status IN ('pending','retry') AND next_attempt_at <> '';
CREATE INDEX agent_message_put_off ON agent_message (recipient, sender, priority, next_attempt_at)
    WHERE status = 'pending' AND next_attempt_at <> '';
CREATE INDEX agent_message_placed ON agent_message (recipient)
    WHERE status = 'delivered' AND acknowledged_at = '' AND delivery_marks <> '';
CREATE INDEX agent_message_archive_placed ON agent_message_archive (recipient)
    WHERE status = 'delivered' AND acknowledged_at = '' AND delivery_marks <> '';

CREATE TABLE agent_secrets (
    agent             TEXT PRIMARY KEY,
    secret            TEXT NOT NULL,                   -- whsec_ and base64
    created_at        TEXT NOT NULL
);

CREATE TABLE agent_runs (
    agent             TEXT PRIMARY KEY,
    state             TEXT NOT NULL,                   -- running, ended, failed, given_up
    started_at        TEXT NOT NULL,
    ended_at          TEXT NOT NULL DEFAULT '',
    instance          TEXT NOT NULL,                   -- the process that started it
    pid               INTEGER NOT NULL DEFAULT 0,      -- of the command, which leads a process group of its own
    outcome           TEXT NOT NULL DEFAULT '',        -- how it ended: exit status 0, signal: killed, ...
    failures          INTEGER NOT NULL DEFAULT 0,      -- runs in a row that failed
    next_at           TEXT NOT NULL DEFAULT '',        -- after a failure it is not started before
    through           INTEGER NOT NULL DEFAULT 0,      -- seq of the newest message that it was started for
    starts            INTEGER NOT NULL DEFAULT 0       -- runs so far
);

CREATE TABLE heartbeats (
    agent             TEXT PRIMARY KEY,
    heard_at          TEXT NOT NULL,
    silent_at         TEXT NOT NULL DEFAULT '',        -- when its silence is reported; '': it is idle, or it has been
    told_at           TEXT NOT NULL DEFAULT ''         -- when this silence was reported
);
CREATE INDEX heartbeats_silent ON heartbeats (silent_at)
    WHERE silent_at <> '';

CREATE TABLE bridge_problems (
    path              TEXT PRIMARY KEY,
    fingerprint       TEXT NOT NULL,                   -- by which it is known that it has not changed since
    problem           TEXT NOT NULL,
    found_at          TEXT NOT NULL
);
