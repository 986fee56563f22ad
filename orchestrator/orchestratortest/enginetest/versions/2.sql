-- Mailroom's tables. Read this file first: who has understood it has understood the program.
--
-- One row of agent_message is one message to one recipient, from `send` to its end. Agents put rows in, the router
-- takes them out to wherever each recipient looks, and every step leaves a row in message_trace in the same
-- transaction, so that plain SQL can tell the whole story.
--
-- Conventions, true of every table here:
--   * A time is TEXT, RFC 3339, UTC, exactly three fractional digits: 2025-10-26T10:30:00.000Z. All of one width, so
--     that comparing them as text compares them as times. '' in a time column means "not (yet)".
--   * A column without a value of its own has a DEFAULT, so that a program which knows only a few columns can write.
--   * The syntax is that of SQLite 3.31, without STRICT and without foreign keys, so that old clients can read the file.
--   * The PRAGMA user_version is the version of this file; orchestrator/migrate.go holds the steps between versions.


-- agent_message: the source of truth.
--
-- The first eleven columns are those of the command document (route-inter-agent-messages), in its order and with its
-- meanings. A complete send by hand is
--
--     INSERT INTO agent_message (message_id, sender, recipient, payload)
--     VALUES ('m1', 'architect', 'code_developer', '{"n":1}');
--
-- It is pending and due now; the next delivery takes it. Nothing here refuses what such a writer may write: the router
-- tidies it up ("adopts" it) before it acts on it, and a row that makes no sense fails alone.
--
--     status      means                                                   leaves it
--     pending     due now, never failed                                   delivered, retry, failed, expired, cancelled
--     retry       an attempt failed; due again at next_attempt_at         the same
--     delivered   the recipient's transport has it                        expired when unread past its ttl; archived
--     failed      gave up, error_message says why (a dead letter)         replayed, or deleted by clear_old
--     expired     its time passed undelivered or unread (a dead letter)   deleted by clear_old
--     cancelled   taken back by its sender before it was delivered        deleted by clear_old
CREATE TABLE agent_message (
    message_id        TEXT NOT NULL UNIQUE,            -- msg- and a ULID when the router makes it; yours is kept
    sender            TEXT NOT NULL,                   -- agent that sent it; 'system' is the router itself
    recipient         TEXT NOT NULL,                   -- agent that gets it
    message_type      TEXT,                            -- task_assignment, error_report, ...: any word
    payload           TEXT,                            -- any JSON value, as text: numbers stay as they were written
    status            TEXT DEFAULT 'pending',
    created_at        TEXT,
    delivered_at      TEXT,                            -- NULL until it is delivered
    retry_count       INTEGER DEFAULT 0,               -- retries made: 0 during the first attempt, 3 after the fourth
    max_retries       INTEGER DEFAULT 3,
    error_message     TEXT,                            -- of the last failed attempt; NULL when none failed

    -- From here on the router's own columns. A writer may leave all of them out.
    seq               INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of sending; never used twice
    traced_status     TEXT NOT NULL DEFAULT '',        -- the status that message_trace knows; differs: changed by hand
    next_attempt_at   TEXT NOT NULL DEFAULT '',        -- when a retry is due; '' is now
    review_at         TEXT NOT NULL DEFAULT '',        -- when the router next looks whether it is overdue or expired
    expires_at        TEXT NOT NULL DEFAULT '',        -- when it expires undelivered (and unread, if it has a ttl)
    ended_at          TEXT NOT NULL DEFAULT '',        -- when it was delivered, failed, expired or cancelled
    ttl_seconds       INTEGER,                         -- the sender's own ttl; NULL: the settings decide
    priority          INTEGER NOT NULL DEFAULT 0,      -- -9 to 9, higher first
    held              INTEGER NOT NULL DEFAULT 0,      -- 1: waits for an agent of that name to be added
    summary           TEXT,
    context           TEXT,
    action            TEXT,                            -- queue or interrupt; NULL is queue
    thread_id         TEXT,
    session_id        TEXT,
    reply_to          TEXT,                            -- message_id that this one answers
    hops              INTEGER NOT NULL DEFAULT 0,      -- answers to answers; the router refuses more than 64
    multicast_id      TEXT,                            -- shared by the rows of one send to a group
    multicast_target  TEXT,                            -- the group that the sender named
    idempotency_key   TEXT,
    read_at           TEXT NOT NULL DEFAULT '',
    acknowledged_at   TEXT NOT NULL DEFAULT '',

    -- A delivery outside the database holds the row under a lease. A settlement names the token, so that a worker whose
    -- lease ran out changes nothing.
    lease_token       TEXT NOT NULL DEFAULT '',
    lease_until       TEXT NOT NULL DEFAULT '',
    lease_owner       TEXT NOT NULL DEFAULT '',
    crashes           INTEGER NOT NULL DEFAULT 0,      -- leases that ran out because their process died
    delivery_marks    TEXT NOT NULL DEFAULT '',        -- JSON: what a transport noted so as to recognise its own delivery

    trace_id          TEXT NOT NULL DEFAULT '',        -- W3C trace id of the send
    span_id           TEXT NOT NULL DEFAULT ''         -- the command_trace row of the send
);

-- Only live rows (pending and retry) stand in the indexes of the hot statements, so that claiming costs the same with
-- ten thousand finished rows and with five million. SQLite uses such an index only for a query that repeats its
-- condition to the letter: orchestrator/rows.go has it as one constant.
CREATE INDEX agent_message_live ON agent_message (recipient, priority DESC, seq)
    WHERE status IN ('pending','retry');
CREATE INDEX agent_message_retry ON agent_message (next_attempt_at)
    WHERE status = 'retry';
CREATE INDEX agent_message_review ON agent_message (review_at)
    WHERE review_at <> '';
CREATE INDEX agent_message_leased ON agent_message (recipient, sender)
    WHERE lease_token <> '';
CREATE INDEX agent_message_untraced ON agent_message (seq)
    WHERE traced_status IS NOT status;
CREATE INDEX agent_message_ended ON agent_message (ended_at)
    WHERE ended_at <> '';
CREATE INDEX agent_message_multicast ON agent_message (multicast_id)
    WHERE multicast_id IS NOT NULL;
CREATE INDEX agent_message_reply ON agent_message (reply_to)
    WHERE reply_to IS NOT NULL;
CREATE INDEX agent_message_idempotency ON agent_message (sender, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX agent_message_thread ON agent_message (thread_id)
    WHERE thread_id IS NOT NULL;
CREATE INDEX agent_message_past ON agent_message (sender)
    WHERE status NOT IN ('pending','retry');


-- agent_message_archive: delivered messages that retention moved out of the way, kept for 90 days more. The same columns
-- in the same order, and when it was moved.
CREATE TABLE agent_message_archive (
    message_id        TEXT NOT NULL,                   -- not unique: others may use an id again once it was archived
    sender            TEXT NOT NULL,
    recipient         TEXT NOT NULL,
    message_type      TEXT,
    payload           TEXT,
    status            TEXT,
    created_at        TEXT,
    delivered_at      TEXT,
    retry_count       INTEGER,
    max_retries       INTEGER,
    error_message     TEXT,
    seq               INTEGER PRIMARY KEY,
    traced_status     TEXT NOT NULL,
    next_attempt_at   TEXT NOT NULL,
    review_at         TEXT NOT NULL,
    expires_at        TEXT NOT NULL,
    ended_at          TEXT NOT NULL,
    ttl_seconds       INTEGER,
    priority          INTEGER NOT NULL,
    held              INTEGER NOT NULL,
    summary           TEXT,
    context           TEXT,
    action            TEXT,
    thread_id         TEXT,
    session_id        TEXT,
    reply_to          TEXT,
    hops              INTEGER NOT NULL,
    multicast_id      TEXT,
    multicast_target  TEXT,
    idempotency_key   TEXT,
    read_at           TEXT NOT NULL,
    acknowledged_at   TEXT NOT NULL,
    lease_token       TEXT NOT NULL,
    lease_until       TEXT NOT NULL,
    lease_owner       TEXT NOT NULL,
    crashes           INTEGER NOT NULL,
    delivery_marks    TEXT NOT NULL,
    trace_id          TEXT NOT NULL,
    span_id           TEXT NOT NULL,
    archived_at       TEXT NOT NULL
);
CREATE INDEX agent_message_archive_message ON agent_message_archive (message_id);
CREATE INDEX agent_message_archive_archived ON agent_message_archive (archived_at);
CREATE INDEX agent_message_archive_multicast ON agent_message_archive (multicast_id)
    WHERE multicast_id IS NOT NULL;
CREATE INDEX agent_message_archive_reply ON agent_message_archive (reply_to)
    WHERE reply_to IS NOT NULL;
CREATE INDEX agent_message_archive_idempotency ON agent_message_archive (sender, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX agent_message_archive_thread ON agent_message_archive (thread_id)
    WHERE thread_id IS NOT NULL;
CREATE INDEX agent_message_archive_sender ON agent_message_archive (sender);
CREATE INDEX agent_message_archive_recipient ON agent_message_archive (recipient);


-- dead_letter: what the router gave up on. Replay with `mailroom dead_letters replay ID`.
CREATE VIEW dead_letter AS
    SELECT message_id, sender, recipient, message_type, payload, status, created_at, ended_at, retry_count, max_retries,
           error_message, multicast_id, trace_id
    FROM agent_message
    WHERE status IN ('failed','expired');


-- agent_inbox: the inbox transport. A message is delivered exactly once into it, because the insert and the change of
-- status are one transaction. Listing marks nothing; `mailroom wait` marks what it returns as read.
-- For each agent added with `mailroom agent add`, a view NAME_inbox(message_id, payload) shows that agent's part, and an
-- INSTEAD OF trigger lets the command document's own INSERT into it work.
CREATE TABLE agent_inbox (
    recipient         TEXT NOT NULL,
    message_id        TEXT NOT NULL,
    payload           TEXT,
    delivered_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
    read_at           TEXT NOT NULL DEFAULT '',
    UNIQUE (message_id, recipient)
);
CREATE INDEX agent_inbox_unread ON agent_inbox (recipient)
    WHERE read_at = '';


-- agents: who is known. A message to or from anybody else is refused, so that a typo is an error and not a lost message.
CREATE TABLE agents (
    name                 TEXT PRIMARY KEY,             -- [a-z][a-z0-9_-]{0,56}
    role                 TEXT NOT NULL DEFAULT '',
    deliver              TEXT NOT NULL DEFAULT 'inbox',-- transport and address: inbox, jsonl:/path
    fallback             TEXT NOT NULL DEFAULT '',     -- used when the first transport fails
    timeout_seconds      INTEGER NOT NULL DEFAULT 0,   -- of one delivery attempt; 0: the setting delivery.timeout
    start_command        TEXT NOT NULL DEFAULT '',
    silent_after_seconds INTEGER NOT NULL DEFAULT 0,
    plan_mode_required   INTEGER NOT NULL DEFAULT 0,
    registered_by        TEXT NOT NULL DEFAULT '',
    created_at           TEXT NOT NULL,
    updated_at           TEXT NOT NULL
);


-- groups: a message to a group becomes one row per member. The group 'all' is everyone and is not stored.
CREATE TABLE groups (
    name              TEXT PRIMARY KEY,
    created_at        TEXT NOT NULL
);
CREATE TABLE group_members (
    group_name        TEXT NOT NULL,
    agent             TEXT NOT NULL,
    position          INTEGER NOT NULL,                -- order of joining
    PRIMARY KEY (group_name, agent)
);


-- idempotency: the first result of every send that carried a key, for as long as a row of that send exists.
CREATE TABLE idempotency (
    sender            TEXT NOT NULL,
    key               TEXT NOT NULL,
    params_hash       TEXT NOT NULL,                   -- SHA-256 of what was sent; another one is a conflict
    result            TEXT NOT NULL,                   -- JSON: the first answer
    created_at        TEXT NOT NULL,
    PRIMARY KEY (sender, key)
);


-- acknowledgement_due: messages whose sender asked to be told when nobody acknowledges them in time. A row goes when the
-- message is acknowledged, or else when it is due: then the sender is told, unless it was told already that the message
-- failed or expired, or took it back.
CREATE TABLE acknowledgement_due (
    message_id        TEXT PRIMARY KEY,
    due_at            TEXT NOT NULL,
    within_seconds    INTEGER NOT NULL
);
CREATE INDEX acknowledgement_due_at ON acknowledgement_due (due_at);


-- tokens: what agents show over HTTP. Only the hash is kept; the token itself is printed once. `mailroom sql` cannot read
-- this table.
CREATE TABLE tokens (
    hash              TEXT PRIMARY KEY,                -- SHA-256 of the token, 64 hex digits
    agent             TEXT NOT NULL,
    admin             INTEGER NOT NULL DEFAULT 0,      -- 1: may also run what is for administrators
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL DEFAULT '',        -- '' is never
    revoked_at        TEXT NOT NULL DEFAULT ''
);
CREATE INDEX tokens_agent ON tokens (agent);


-- presence: who takes part in which session, and what they were last known to do. A session is a name (--session); teams
-- and threads belong to one.
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


-- threads: conversations of several agents. A post is a row of agent_message to 'thread:ID', and one more to each agent
-- that it mentions.
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


-- team_requests: what a team member asked another and must be answered: to shut down, or to approve a plan.
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


-- waits: who waits for whom, as long as it does, one row for each agent that could end the wait. One that would close a
-- circle is refused.
CREATE TABLE waits (
    id                TEXT PRIMARY KEY,                -- wait- and a ULID
    waiter            TEXT NOT NULL,
    waits_for         TEXT NOT NULL,
    instance          TEXT NOT NULL,                   -- the process that waits, with what shows whether it lives
    since             TEXT NOT NULL,
    until             TEXT NOT NULL                    -- ends by then at the latest; what is left behind means nothing
);
CREATE INDEX waits_waiter ON waits (waiter);


-- command_trace: one row per command run, failed ones too (a scheduled run that changed nothing is left out).
-- The columns are an OpenTelemetry span's.
CREATE TABLE command_trace (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    trace_id          TEXT NOT NULL,                   -- 32 hex digits
    span_id           TEXT NOT NULL UNIQUE,            -- 16 hex digits
    parent_span_id    TEXT NOT NULL DEFAULT '',        -- from TRACEPARENT
    name              TEXT NOT NULL,                   -- of the command
    kind              TEXT NOT NULL,                   -- CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER
    started_at        TEXT NOT NULL,
    ended_at          TEXT NOT NULL DEFAULT '',
    status            TEXT NOT NULL DEFAULT 'UNSET',   -- UNSET, OK, ERROR
    status_message    TEXT NOT NULL DEFAULT '',
    actor             TEXT NOT NULL DEFAULT '',        -- process: ORCHESTRATOR_INSTANCE_ID or HOST-PID
    caller            TEXT NOT NULL DEFAULT '',        -- agent that asked; '' is the administrator
    attributes        TEXT NOT NULL DEFAULT '{}'       -- JSON, OpenTelemetry attribute names
);
CREATE INDEX command_trace_started ON command_trace (started_at);
CREATE INDEX command_trace_trace ON command_trace (trace_id);


-- message_trace: one row per thing that happened to a message, written in the transaction of the change itself.
-- Append-only. Events: created, adopted, held, claimed, released, attempt_failed, overdue, delivered, read,
-- acknowledged, expired, failed, cancelled, replayed, archived, deleted.
CREATE TABLE message_trace (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id        TEXT NOT NULL,
    at                TEXT NOT NULL,
    event             TEXT NOT NULL,
    old_status        TEXT,
    new_status        TEXT,
    attempt           INTEGER NOT NULL DEFAULT 0,      -- the attempt it belongs to, from 1; 0 when none was made
    actor             TEXT NOT NULL DEFAULT '',
    span_id           TEXT NOT NULL DEFAULT '',        -- the command_trace row that did it
    error             TEXT NOT NULL DEFAULT ''
);
CREATE INDEX message_trace_message ON message_trace (message_id);
CREATE INDEX message_trace_gone ON message_trace (at)
    WHERE event = 'deleted';
CREATE INDEX message_trace_failed ON message_trace (at)
    WHERE event IN ('attempt_failed','failed','expired');


-- settings: what differs from the defaults. `mailroom setting list` shows all of them with their bounds.
-- The row 'config.version' changes with every change of agents, groups, settings or schedules.
CREATE TABLE settings (
    key               TEXT PRIMARY KEY,
    value             TEXT NOT NULL,
    updated_at        TEXT NOT NULL
);

-- schedules: commands that `mailroom serve` runs by itself. spec is a cron expression in local time, '@every 1s', or
-- '@doorbell': whenever anybody sends.
CREATE TABLE schedules (
    name              TEXT PRIMARY KEY,
    spec              TEXT NOT NULL,
    command           TEXT NOT NULL,
    params            TEXT NOT NULL DEFAULT '{}',
    enabled           INTEGER NOT NULL DEFAULT 1,
    last_run_at       TEXT NOT NULL DEFAULT '',
    created_at        TEXT NOT NULL
);

-- daemons: every running `mailroom serve`, with a heartbeat.
CREATE TABLE daemons (
    instance          TEXT PRIMARY KEY,
    host              TEXT NOT NULL,
    pid               INTEGER NOT NULL,
    started_at        TEXT NOT NULL,
    seen_at           TEXT NOT NULL,
    listening         TEXT NOT NULL DEFAULT ''
);
