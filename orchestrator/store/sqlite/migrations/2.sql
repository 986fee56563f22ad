-- From version 1 to 2: threads, teams, tokens, waits and acknowledgements. Once version 2 is released this file stays as
-- it is; a later version changes what it makes by a file of its own.

CREATE INDEX agent_message_thread ON agent_message (thread_id)
    WHERE thread_id IS NOT NULL;

CREATE INDEX agent_message_past ON agent_message (sender)
    WHERE status NOT IN ('pending','retry');

CREATE INDEX agent_message_archive_thread ON agent_message_archive (thread_id)
    WHERE thread_id IS NOT NULL;

CREATE INDEX agent_message_archive_sender ON agent_message_archive (sender);

CREATE INDEX agent_message_archive_recipient ON agent_message_archive (recipient);

CREATE TABLE acknowledgement_due (
    message_id        TEXT PRIMARY KEY,
    due_at            TEXT NOT NULL,
    within_seconds    INTEGER NOT NULL
);

CREATE INDEX acknowledgement_due_at ON acknowledgement_due (due_at);

CREATE TABLE tokens (
    hash              TEXT PRIMARY KEY,                -- SHA-256 of the token, 64 hex digits
    agent             TEXT NOT NULL,
    admin             INTEGER NOT NULL DEFAULT 0,      -- 1: may also run what is for administrators
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL DEFAULT '',        -- '' is never
    revoked_at        TEXT NOT NULL DEFAULT ''
);

CREATE INDEX tokens_agent ON tokens (agent);

CREATE TABLE presence (
    session_id        TEXT NOT NULL,
    agent             TEXT NOT NULL,
    display_name      TEXT NOT NULL DEFAULT '',        -- what it calls itself; '' is its name
    description       TEXT NOT NULL DEFAULT '',
    status            TEXT NOT NULL DEFAULT 'working', -- working, idle or stopped
    since             TEXT NOT NULL,                   -- when it took that status
    joined_at         TEXT NOT NULL,
    seen_at           TEXT NOT NULL,                   -- when it last took part, to the day
    PRIMARY KEY (session_id, agent)
);

CREATE INDEX presence_agent ON presence (agent);

CREATE TABLE threads (
    thread_id         TEXT PRIMARY KEY,                -- thread- and a ULID
    session_id        TEXT NOT NULL,
    name              TEXT NOT NULL,
    creator           TEXT NOT NULL,
    status            TEXT NOT NULL DEFAULT 'open',    -- open or closed
    summary           TEXT NOT NULL DEFAULT '',        -- given when it was closed
    created_at        TEXT NOT NULL,
    closed_at         TEXT NOT NULL DEFAULT ''         -- the age of its posts counts from here
);

CREATE INDEX threads_session ON threads (session_id);

CREATE INDEX threads_closed ON threads (closed_at)
    WHERE closed_at <> '';

CREATE TABLE thread_participants (
    thread_id         TEXT NOT NULL,
    agent             TEXT NOT NULL,
    joined_at         TEXT NOT NULL,
    PRIMARY KEY (thread_id, agent)
);

CREATE INDEX thread_participants_agent ON thread_participants (agent);

CREATE TABLE team_requests (
    request_id        TEXT PRIMARY KEY,                -- req- and a ULID
    kind              TEXT NOT NULL,                   -- shutdown or plan_approval
    session_id        TEXT NOT NULL,
    requester         TEXT NOT NULL,
    responder         TEXT NOT NULL,                   -- only this agent can answer
    message_id        TEXT NOT NULL,                   -- the request itself
    status            TEXT NOT NULL DEFAULT 'open',    -- open, approved, rejected, or void: its message reached nobody
    answer_id         TEXT NOT NULL DEFAULT '',        -- the answer's message_id
    created_at        TEXT NOT NULL,
    answered_at       TEXT NOT NULL DEFAULT ''
);

CREATE INDEX team_requests_responder ON team_requests (responder)
    WHERE status = 'open';

CREATE INDEX team_requests_void ON team_requests (message_id)
    WHERE status = 'void';

CREATE TABLE waits (
    id                TEXT PRIMARY KEY,                -- wait- and a ULID
    waiter            TEXT NOT NULL,
    waits_for         TEXT NOT NULL,
    instance          TEXT NOT NULL,                   -- the process that waits, with what shows whether it lives
    since             TEXT NOT NULL,
    until             TEXT NOT NULL                    -- ends by then at the latest; what is left behind means nothing
);

CREATE INDEX waits_waiter ON waits (waiter);
