-- The tables of Mailroom. Read this file first: the rest of the program works on these tables.
--
-- One row of agent_message is one message to one recipient, from `send` until retention deletes it. Agents insert rows.
-- The engine delivers each row to the place that its recipient has chosen. Every step writes a row to message_trace in
-- the same transaction, so plain SQL can show what happened to a message.
--
-- The following is true of every table:
--   * A time is TEXT in RFC 3339, in UTC, with exactly three fractional digits: 2025-10-26T10:30:00.000Z. All times have
--     the same width, so a comparison as text is a comparison of times. '' in a time column means "not (yet)".
--   * A column that a writer may leave out has a DEFAULT.
--   * The syntax is that of SQLite 3.31, without STRICT and without foreign keys, so that old clients can read the file.
--   * PRAGMA user_version is the version of this file. orchestrator/store/sqlite/tables/migrate.go has the steps between
--     versions.


-- agent_message: all messages that are not archived. This table is the source of truth.
--
-- The first eleven columns are those of the command document (route-inter-agent-messages), in its order and with its
-- meanings. The following statement sends a message:
--
--     INSERT INTO agent_message (message_id, sender, recipient, payload)
--     VALUES ('m1', 'architect', 'code_developer', '{"n":1}');
--
-- The message is pending and due at once, so the next delivery takes it. The table accepts any row. Before the engine
-- acts on a row that another program wrote, it completes the row ("adopts" it). An invalid row fails without an effect
-- on other rows.
--
--     status      meaning                                                 next
--     pending     has not failed; due now or when its sender wants it     delivered, retry, failed, expired, cancelled
--     retry       an attempt failed; due again at next_attempt_at         the same
--     delivered   the recipient's transport has it                        archived; expired if unread after its TTL;
--                                                                         failed if its recipient is removed unread
--     failed      dead letter: given up, error_message has the reason     replayed, or deleted by clear_old
--     expired     dead letter: undelivered or unread for too long         deleted by clear_old
--     cancelled   taken back by its sender before its delivery            deleted by clear_old
CREATE TABLE agent_message (
    message_id        TEXT NOT NULL UNIQUE,            -- msg- and a ULID, or the ID that the writer chose
    sender            TEXT NOT NULL,                   -- agent; 'system' is the engine
    recipient         TEXT NOT NULL,                   -- agent
    message_type      TEXT,                            -- any word, such as task_assignment or error_report
    payload           TEXT,                            -- any JSON value as text, so numbers keep their digits
    status            TEXT DEFAULT 'pending',
    created_at        TEXT,
    delivered_at      TEXT,                            -- NULL until the delivery
    retry_count       INTEGER DEFAULT 0,               -- retries made: 0 during attempt 1, 3 after attempt 4
    max_retries       INTEGER DEFAULT 3,
    error_message     TEXT,                            -- of the last failed attempt; NULL if none failed

    -- The columns from here on belong to the engine. Writers may leave them out.
    seq               INTEGER PRIMARY KEY AUTOINCREMENT, -- order of sending; a number is never reused
    traced_status     TEXT NOT NULL DEFAULT '',        -- status in message_trace; differs from status after a change by hand
    next_attempt_at   TEXT NOT NULL DEFAULT '',        -- when a retry or a deferred message is due; '' is now
    review_at         TEXT NOT NULL DEFAULT '',        -- when the engine next checks for overdue and expired
    expires_at        TEXT NOT NULL DEFAULT '',        -- when it expires if undelivered (or unread, with a TTL)
    ended_at          TEXT NOT NULL DEFAULT '',        -- time of delivery, failure, expiry or cancellation
    ttl_seconds       INTEGER,                         -- TTL from the sender; NULL: the settings apply
    priority          INTEGER NOT NULL DEFAULT 0,      -- -9 to 9, higher first
    held              INTEGER NOT NULL DEFAULT 0,      -- 1: waits until an agent with the recipient's name is added
    summary           TEXT,
    context           TEXT,
    action            TEXT,                            -- queue (as is NULL) or interrupt
    thread_id         TEXT,
    session_id        TEXT,
    reply_to          TEXT,                            -- message_id of the message that this one answers
    hops              INTEGER NOT NULL DEFAULT 0,      -- messages in the chain that led to it, by replies or by what its sender was shown
    multicast_id      TEXT,                            -- the same in all rows of one send to a group
    multicast_target  TEXT,                            -- group that the sender named
    idempotency_key   TEXT,
    read_at           TEXT NOT NULL DEFAULT '',
    acknowledged_at   TEXT NOT NULL DEFAULT '',

    -- A delivery outside the database holds a lease on the row. The outcome is stored only under the token of the
    -- lease, so a worker whose lease has ended changes nothing.
    lease_token       TEXT NOT NULL DEFAULT '',
    lease_until       TEXT NOT NULL DEFAULT '',
    lease_owner       TEXT NOT NULL DEFAULT '',
    crashes           INTEGER NOT NULL DEFAULT 0,      -- leases that ended because their process died
    delivery_marks    TEXT NOT NULL DEFAULT '',        -- JSON: notes by which a transport recognizes its delivery

    trace_id          TEXT NOT NULL DEFAULT '',        -- W3C trace id of the send
    span_id           TEXT NOT NULL DEFAULT '',        -- the command_trace row of the send
    origin            TEXT NOT NULL DEFAULT '',        -- JSON: fields of a message of the coral vocabulary that have no column
    not_before        TEXT NOT NULL DEFAULT '',        -- earliest delivery that the sender wants; '' is at once
    chain_at          TEXT NOT NULL DEFAULT '',        -- when the first message of the chain (hops) was sent; '' if unknown
    held_from         TEXT NOT NULL DEFAULT '',        -- not_before as it was before `mailroom hold`
    wake              TEXT                             -- now, rest, never: what it may cost a session; NULL: by type and priority
);

-- Indexes for frequent statements contain only live rows (pending and retry), so the cost of a claim does not depend on
-- the number of finished rows. SQLite uses such an index only for a query that repeats the index's condition literally.
-- orchestrator/ledger/rows.go has that condition as a constant. Any text is less than x'', so agent_message_untraced also
-- contains rows with a BLOB as an ID, a name or a status.
CREATE INDEX agent_message_live ON agent_message (recipient, priority DESC, seq)
    WHERE status IN ('pending','retry');
CREATE INDEX agent_message_later ON agent_message (next_attempt_at)
    WHERE status IN ('pending','retry') AND next_attempt_at <> '' AND next_attempt_at <> not_before;
CREATE INDEX agent_message_wanted_later ON agent_message (next_attempt_at)
    WHERE status IN ('pending','retry') AND not_before <> '' AND next_attempt_at = not_before;
CREATE INDEX agent_message_put_off ON agent_message (recipient, sender, priority, next_attempt_at)
    WHERE status = 'pending' AND next_attempt_at <> '' AND next_attempt_at <> not_before;
CREATE INDEX agent_message_review ON agent_message (review_at)
    WHERE review_at <> '';
CREATE INDEX agent_message_leased ON agent_message (recipient, sender)
    WHERE status IN ('pending','retry') AND lease_token <> '';
CREATE INDEX agent_message_untraced ON agent_message (seq)
    WHERE traced_status IS NOT status OR message_id >= x'' OR sender >= x'' OR recipient >= x'' OR status >= x'';
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
CREATE INDEX agent_message_placed ON agent_message (recipient)
    WHERE status = 'delivered' AND acknowledged_at = '' AND delivery_marks <> '';
CREATE INDEX agent_message_dead ON agent_message (seq)
    WHERE status IN ('failed','expired');


-- agent_message_archive: delivered messages that retention has moved out of agent_message. They are kept for 90 more days.
-- The columns are those of agent_message that matter after the delivery, and the time of the move.
CREATE TABLE agent_message_archive (
    message_id        TEXT NOT NULL,                   -- not unique: a writer may use the ID of an archived message again
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
    archived_at       TEXT NOT NULL,
    origin            TEXT NOT NULL DEFAULT '',
    not_before        TEXT NOT NULL DEFAULT '',
    wake              TEXT
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
CREATE INDEX agent_message_archive_placed ON agent_message_archive (recipient)
    WHERE status = 'delivered' AND acknowledged_at = '' AND delivery_marks <> '';


-- dead_letter: messages that the engine has given up. `mailroom dead_letters replay ID` delivers one again.
CREATE VIEW dead_letter AS
    SELECT message_id, sender, recipient, message_type, payload, status, created_at, ended_at, retry_count, max_retries,
           error_message, multicast_id, trace_id
    FROM agent_message
    WHERE status IN ('failed','expired');


-- agent_inbox: the inbox transport. The insert here and the change of the message's status are one transaction, so each
-- message is delivered exactly once. A list of an inbox marks nothing as read. `mailroom wait` marks the messages that it
-- returns as read.
--
-- `mailroom agent add --inbox-view` makes a view NAME_inbox(message_id, payload) of the agent's unread messages. Its INSTEAD
-- OF triggers allow the INSERT of the command document, and a DELETE marks a message as read here, in agent_message, and
-- in message_trace.
CREATE TABLE agent_inbox (
    recipient         TEXT NOT NULL,
    message_id        TEXT NOT NULL,
    payload           TEXT,
    delivered_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
    read_at           TEXT NOT NULL DEFAULT '',
    told_in           TEXT NOT NULL DEFAULT '',        -- sessions whose digest named the message, each between spaces
    UNIQUE (message_id, recipient)
);
CREATE INDEX agent_inbox_unread ON agent_inbox (recipient)
    WHERE read_at = '';

-- message_count: how many rows of agent_message each recipient has with each status, and how many unread rows of
-- agent_inbox. With these counts, no command counts a million rows. Archived rows count under the recipient ''.
--
-- The counts by status include the rows up to one seq, which is n of the row ('', 'counted'). It advances once in a
-- thousand rows. Readers of the counts add the rows after it. A row from another program counts after its adoption, under
-- traced_status.
--
-- The engine counts its own changes in their transactions. Triggers count what other programs delete, mark as read, or
-- give to another recipient. They miss three changes: INSERT OR REPLACE, an INSERT into agent_inbox, and a change of
-- traced_status. `mailroom doctor` finds a difference, and `mailroom recount` corrects it.
CREATE TABLE message_count (
    recipient         TEXT NOT NULL,
    state             TEXT NOT NULL,                   -- a status, or unread, archived or counted
    n                 INTEGER NOT NULL,
    PRIMARY KEY (recipient, state)
);
CREATE TRIGGER agent_message_deleted AFTER DELETE ON agent_message
    WHEN OLD.traced_status IN ('pending','retry','delivered','failed','expired','cancelled') BEGIN
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


-- reading_lease: messages that were handed to a reader and that are not read yet. While the lease lasts, no other reader of
-- the agent gets the message. When the lease ends, the message is unread again. An acknowledgement removes the lease.
--
-- A lease starts with ends = 'answer', while the answer with the message is being written. Then the message becomes read,
-- or its lease continues for a session or a time. If several posts of a thread are handed out, the first has the lease.
CREATE TABLE reading_lease (
    message_id        TEXT NOT NULL,
    recipient         TEXT NOT NULL,
    holder            TEXT NOT NULL DEFAULT '',        -- kind of reader: wait, or a hook
    session           TEXT NOT NULL DEFAULT '',        -- session of the agent host
    host              TEXT NOT NULL DEFAULT '',        -- machine and PID namespace of pid
    pid               INTEGER NOT NULL DEFAULT 0,      -- process whose end ends the lease; 0: none
    born              TEXT NOT NULL DEFAULT '',        -- start of that process, because process IDs are reused
    shown_at          TEXT NOT NULL,
    until             TEXT NOT NULL,                   -- when it ends, except if ends is answer or session and the process lives
    ends              TEXT NOT NULL DEFAULT 'time',    -- what else ends it: answer, session, time
    PRIMARY KEY (message_id, recipient)
);
CREATE INDEX reading_lease_until ON reading_lease (until);
CREATE INDEX reading_lease_recipient ON reading_lease (recipient, until);


-- host_sessions: sessions of agent hosts (Claude Code, Codex, ...) in which agents work, as reported by the hosts' hooks.
CREATE TABLE host_sessions (
    agent             TEXT NOT NULL,
    session           TEXT NOT NULL,                   -- ID that the host uses
    program           TEXT NOT NULL DEFAULT '',        -- claude, codex, gemini, opencode
    state             TEXT NOT NULL DEFAULT '',        -- working, idle, ended
    host              TEXT NOT NULL DEFAULT '',        -- machine and PID namespace of pid
    pid               INTEGER NOT NULL DEFAULT 0,      -- of the host; 0: no process proves that the session lives
    born              TEXT NOT NULL DEFAULT '',        -- start of that process, because process IDs are reused
    turns             INTEGER NOT NULL DEFAULT 0,      -- turns that messages started since the user's last prompt
    continued         INTEGER NOT NULL DEFAULT 0,      -- how often in a row messages have continued the turn
    waiter_pid        INTEGER NOT NULL DEFAULT 0,      -- process that wakes the session for messages; 0: none
    waiter_born       TEXT NOT NULL DEFAULT '',
    nudged_seq        INTEGER NOT NULL DEFAULT 0,      -- newest message for which the session was woken
    nudged_at         TEXT NOT NULL DEFAULT '',
    started_at        TEXT NOT NULL,
    seen_at           TEXT NOT NULL,                   -- last event, to the minute
    shown_id          TEXT NOT NULL DEFAULT '',        -- message shown last
    shown_at          TEXT NOT NULL DEFAULT '',        -- when it was shown
    prompted_at       TEXT NOT NULL DEFAULT '',        -- the user's last prompt
    PRIMARY KEY (agent, session)
);

-- context_use: how many messages, and how many of their bytes, Mailroom put into the contexts of an agent's models in each
-- hour, which starts at the time `at`. The rows are kept as long as traces. way is hook, urgent (beyond the budget), digest
-- or tool. For a hook, bytes are those of its answer. For a tool, they are those of the messages' contents.
CREATE TABLE context_use (at TEXT, agent TEXT, sender TEXT, message_type TEXT, way TEXT, messages INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (at, agent, sender, message_type, way));


-- given_names: agents that `mailroom connect HOST --as auto` added, and the host process that has each name.
CREATE TABLE given_names (
    agent             TEXT PRIMARY KEY,
    program           TEXT NOT NULL DEFAULT '',        -- claude, gemini
    host              TEXT NOT NULL DEFAULT '',        -- machine and PID namespace of pid
    pid               INTEGER NOT NULL DEFAULT 0,      -- of the host
    born              TEXT NOT NULL DEFAULT '',        -- start of that process, because process IDs are reused
    given_at          TEXT NOT NULL,
    ends_at           TEXT NOT NULL DEFAULT ''         -- when the agent is removed after the end of the process; '': it runs
);


-- agents: all agents. A message to or from any other name is refused, so a typo is an error and not a lost message.
CREATE TABLE agents (
    name                 TEXT PRIMARY KEY,             -- [a-z][a-z0-9_-]{0,56}
    role                 TEXT NOT NULL DEFAULT '',
    deliver              TEXT NOT NULL DEFAULT 'inbox', -- transport and address, such as inbox or jsonl:/path
    fallback             TEXT NOT NULL DEFAULT '',     -- transport to use if the first one fails
    timeout_seconds      INTEGER NOT NULL DEFAULT 0,   -- limit of a delivery attempt; 0: the setting delivery.timeout
    start_command        TEXT NOT NULL DEFAULT '',
    silent_after_seconds INTEGER NOT NULL DEFAULT 0,
    plan_mode_required   INTEGER NOT NULL DEFAULT 0,
    registered_by        TEXT NOT NULL DEFAULT '',
    created_at           TEXT NOT NULL,
    updated_at           TEXT NOT NULL,
    batch                INTEGER NOT NULL DEFAULT 0,   -- messages of one attempt; 0: the transport's default
    concurrency          INTEGER NOT NULL DEFAULT 0,   -- commands of the agent at the same time; 0: one
    allow_private        INTEGER NOT NULL DEFAULT 0,   -- 1: its webhook may be on this machine or in a private network
    folder               TEXT NOT NULL DEFAULT '',     -- working folder of its commands: where the agent was added
    disabled             TEXT NOT NULL DEFAULT '',     -- why its transport is no longer used; '': it is used
    host                 TEXT NOT NULL DEFAULT '',     -- machine of its files and commands, with a database on a server; '': any
    pass_env             TEXT NOT NULL DEFAULT '',     -- environment variables that its commands get; '': the default ones
    wake                 TEXT NOT NULL DEFAULT '' CHECK (typeof(wake) = 'text'), -- what messages may cost its sessions
    CONSTRAINT agents_types CHECK (typeof(name) = 'text' AND 'blob' NOT IN (typeof(role), typeof(deliver), typeof(fallback),
        typeof(start_command), typeof(registered_by), typeof(created_at), typeof(updated_at), typeof(folder),
        typeof(disabled), typeof(host), typeof(pass_env)) AND typeof(timeout_seconds) = 'integer'
        AND typeof(silent_after_seconds) = 'integer' AND typeof(plan_mode_required) = 'integer' AND typeof(batch) = 'integer'
        AND typeof(concurrency) = 'integer' AND typeof(allow_private) = 'integer'),
    CONSTRAINT agents_name CHECK (length(name) BETWEEN 1 AND 57 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''
        AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''
        AND name NOT IN ('agent','auto','all','user','operator','system'))
);

-- removed_agents: names of removed agents. Only `mailroom agent add` can add such a name again. A command that acts as one
-- of them does not register it.
CREATE TABLE removed_agents (
    name              TEXT PRIMARY KEY,
    role              TEXT NOT NULL DEFAULT '',
    removed_at        TEXT NOT NULL,
    removed_by        TEXT NOT NULL DEFAULT ''         -- agent that ran the command; '' is the administrator
);

-- agent_secrets: keys with which messages to webhooks are signed. The row with the agent '' has the key of the marks by
-- which hosts recognize messages that they have shown. `mailroom sql` cannot read this table.
CREATE TABLE agent_secrets (
    agent             TEXT PRIMARY KEY,
    secret            TEXT NOT NULL,                   -- whsec_ and base64
    created_at        TEXT NOT NULL
);

-- agent_runs: the last run of each agent that has a start command. Messages start a run, which lasts as long as its command.
CREATE TABLE agent_runs (
    agent             TEXT PRIMARY KEY,
    state             TEXT NOT NULL,                   -- running, ended, failed, given_up
    started_at        TEXT NOT NULL,
    ended_at          TEXT NOT NULL DEFAULT '',
    instance          TEXT NOT NULL,                   -- process that started it
    pid               INTEGER NOT NULL DEFAULT 0,      -- of the command, which leads its own process group
    outcome           TEXT NOT NULL DEFAULT '',        -- how it ended, such as exit status 0 or signal: killed
    failures          INTEGER NOT NULL DEFAULT 0,      -- failed runs in a row
    next_at           TEXT NOT NULL DEFAULT '',        -- earliest next start after a failure
    through           INTEGER NOT NULL DEFAULT 0,      -- seq of the newest message for which it was started
    starts            INTEGER NOT NULL DEFAULT 0,      -- number of runs
    host              TEXT NOT NULL DEFAULT ''         -- machine and PID namespace of pid
);

-- heartbeats: the last sign of life of each agent that has a limit for its silence.
CREATE TABLE heartbeats (
    agent             TEXT PRIMARY KEY,
    heard_at          TEXT NOT NULL,
    silent_at         TEXT NOT NULL DEFAULT '',        -- when its silence is due to be reported; '': idle, or already reported
    told_at           TEXT NOT NULL DEFAULT ''         -- when the present silence was reported
);
CREATE INDEX heartbeats_silent ON heartbeats (silent_at)
    WHERE silent_at <> '';

-- bridge_problems: files in inbox folders that `ralph watch` could not take. Each is reported once.
CREATE TABLE bridge_problems (
    path              TEXT PRIMARY KEY,
    fingerprint       TEXT NOT NULL,                   -- shows whether the file has changed since
    problem           TEXT NOT NULL,
    found_at          TEXT NOT NULL
);


-- groups: a message to a group becomes one row per member. The group 'all' contains all agents and has no row.
CREATE TABLE groups (
    name              TEXT PRIMARY KEY,
    created_at        TEXT NOT NULL,
    CONSTRAINT groups_types CHECK (typeof(name) = 'text' AND 'blob' NOT IN (typeof(created_at))),
    CONSTRAINT groups_name CHECK (length(name) BETWEEN 1 AND 57 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''
        AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''
        AND name NOT IN ('agent','auto','all','user','operator','system'))
);
CREATE TABLE group_members (
    group_name        TEXT NOT NULL,
    agent             TEXT NOT NULL,
    position          INTEGER NOT NULL,                -- order of joining
    PRIMARY KEY (group_name, agent),
    CONSTRAINT group_members_types CHECK (typeof(group_name) = 'text' AND 'blob' NOT IN (typeof(agent)) AND typeof(position) = 'integer'),
    CONSTRAINT group_members_agent CHECK (length(agent) BETWEEN 1 AND 57 AND ltrim(agent, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''
        AND ltrim(substr(agent, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''
        AND agent NOT IN ('agent','auto','all','user','operator','system'))
);


-- idempotency: the first result of every send with an idempotency key. A row lasts as long as a message of that send.
CREATE TABLE idempotency (
    sender            TEXT NOT NULL,
    key               TEXT NOT NULL,
    params_hash       TEXT NOT NULL,                   -- SHA-256 of the parameters; a different hash is a conflict
    result            TEXT NOT NULL,                   -- JSON: the first answer
    created_at        TEXT NOT NULL,
    PRIMARY KEY (sender, key)
);


-- acknowledgement_due: messages whose senders want a report if nobody acknowledges them in time. A row is deleted when the
-- message is acknowledged or when the time ends. At that time, the sender gets the report, unless the sender took the
-- message back or has a report that the message failed or expired.
CREATE TABLE acknowledgement_due (
    message_id        TEXT PRIMARY KEY,
    due_at            TEXT NOT NULL,
    within_seconds    INTEGER NOT NULL
);
CREATE INDEX acknowledgement_due_at ON acknowledgement_due (due_at);


-- tokens: tokens with which agents use HTTP. The table has only hashes; a token is printed once, when it is made.
-- `mailroom sql` cannot read this table.
CREATE TABLE tokens (
    hash              TEXT PRIMARY KEY,                -- SHA-256 of the token, 64 hex digits
    agent             TEXT NOT NULL,
    admin             INTEGER NOT NULL DEFAULT 0,      -- 1: may also run administrators' commands
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL DEFAULT '',        -- '' is never
    revoked_at        TEXT NOT NULL DEFAULT '',
    CONSTRAINT tokens_types CHECK (typeof(hash) = 'text' AND 'blob' NOT IN (typeof(agent), typeof(created_at), typeof(expires_at),
        typeof(revoked_at)) AND typeof(admin) = 'integer')
);
CREATE INDEX tokens_agent ON tokens (agent);


-- presence: which agents take part in a session, and their last known status. Here a session is a name (--session) that
-- teams and threads share.
CREATE TABLE presence (
    session_id        TEXT NOT NULL,
    agent             TEXT NOT NULL,
    display_name      TEXT NOT NULL DEFAULT '',        -- name that it shows; '' is the agent's name
    description       TEXT NOT NULL DEFAULT '',
    status            TEXT NOT NULL DEFAULT 'working', -- working, idle or stopped
    since             TEXT NOT NULL,                   -- when the status began
    joined_at         TEXT NOT NULL,
    seen_at           TEXT NOT NULL,                   -- its last action, to the day
    PRIMARY KEY (session_id, agent)
);
CREATE INDEX presence_agent ON presence (agent);


-- threads: conversations of several agents. A post is a row of agent_message to 'thread:ID', and one row more for each
-- agent that the post mentions.
CREATE TABLE threads (
    thread_id         TEXT PRIMARY KEY,                -- thread- and a ULID
    session_id        TEXT NOT NULL,
    name              TEXT NOT NULL,
    creator           TEXT NOT NULL,
    status            TEXT NOT NULL DEFAULT 'open',    -- open or closed
    summary           TEXT NOT NULL DEFAULT '',        -- from the agent that closed the thread
    created_at        TEXT NOT NULL,
    closed_at         TEXT NOT NULL DEFAULT ''         -- the age of its posts starts here
);
CREATE INDEX threads_session ON threads (session_id);
CREATE INDEX threads_closed ON threads (closed_at)
    WHERE closed_at <> '';
CREATE TABLE thread_participants (
    thread_id         TEXT NOT NULL,
    agent             TEXT NOT NULL,
    joined_at         TEXT NOT NULL,
    read_seq          INTEGER NOT NULL DEFAULT 0,      -- seq of the newest post that the agent has read
    PRIMARY KEY (thread_id, agent)
);
CREATE INDEX thread_participants_agent ON thread_participants (agent);


-- team_requests: requests between team members that need an answer: to shut down, or to approve a plan.
CREATE TABLE team_requests (
    request_id        TEXT PRIMARY KEY,                -- req- and a ULID
    kind              TEXT NOT NULL,                   -- shutdown or plan_approval
    session_id        TEXT NOT NULL,
    requester         TEXT NOT NULL,
    responder         TEXT NOT NULL,                   -- only this agent can answer
    message_id        TEXT NOT NULL,                   -- message with the request
    status            TEXT NOT NULL DEFAULT 'open',    -- open, approved, rejected, or void (its message reached nobody)
    answer_id         TEXT NOT NULL DEFAULT '',        -- message_id of the answer
    created_at        TEXT NOT NULL,
    answered_at       TEXT NOT NULL DEFAULT ''
);
CREATE INDEX team_requests_responder ON team_requests (responder)
    WHERE status = 'open';
CREATE INDEX team_requests_message ON team_requests (message_id);


-- waits: which agents wait for which. A wait has one row for each agent that could end it, as long as it lasts. Mailroom
-- refuses a wait that would close a circle.
CREATE TABLE waits (
    id                TEXT PRIMARY KEY,                -- wait- and a ULID
    waiter            TEXT NOT NULL,
    waits_for         TEXT NOT NULL,
    instance          TEXT NOT NULL,                   -- the waiting process, with details that show whether it lives
    since             TEXT NOT NULL,
    until             TEXT NOT NULL,                   -- latest end; a row after this time has no effect
    filtered          INTEGER NOT NULL DEFAULT 0,      -- 1: only a message from waits_for ends it; 2: only its answer
    posts             INTEGER NOT NULL DEFAULT 0       -- 1: a post in the waiter's threads also ends it
);
CREATE INDEX waits_waiter ON waits (waiter);


-- signal_questions: questions of agents to their user. The status of a question changes once: the first device that answers
-- wins, or the asker takes the question back, or its time ends. Only the devices can read the body of an encrypted
-- question. Only the asker can read its answer.
CREATE TABLE signal_questions (
    question_id       TEXT PRIMARY KEY,                -- q- and a ULID
    asker             TEXT NOT NULL,                   -- agent
    status            TEXT NOT NULL DEFAULT 'pending', -- pending, answered, expired or cancelled
    encrypted         INTEGER NOT NULL DEFAULT 1,
    body              TEXT NOT NULL,                   -- encrypted: an age file in base64; otherwise JSON
    priority          INTEGER NOT NULL DEFAULT 0,
    session_id        TEXT NOT NULL DEFAULT '',
    thread_id         TEXT NOT NULL DEFAULT '',
    in_reply_to       TEXT NOT NULL DEFAULT '',        -- question to which this one is a follow-up
    project_id        TEXT NOT NULL DEFAULT '',
    message_id        TEXT NOT NULL DEFAULT '',        -- message to 'user' with the question; '' if a command asked
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL,
    ended_at          TEXT NOT NULL DEFAULT '',        -- time of the answer, expiry or cancellation
    answer            TEXT NOT NULL DEFAULT '',        -- like body, for the asker
    answered_by       TEXT NOT NULL DEFAULT '',        -- device
    read_at           TEXT NOT NULL DEFAULT '',        -- when the asker first read the answer
    returned_at       TEXT NOT NULL DEFAULT '',        -- when the answer was sent back as a message
    trace_id          TEXT NOT NULL DEFAULT '',
    span_id           TEXT NOT NULL DEFAULT ''
);
CREATE INDEX signal_questions_pending ON signal_questions (expires_at)
    WHERE status = 'pending';
CREATE INDEX signal_questions_ended ON signal_questions (ended_at)
    WHERE ended_at <> '';
CREATE INDEX signal_questions_asker ON signal_questions (asker, question_id);
CREATE INDEX signal_questions_open ON signal_questions (asker)
    WHERE status = 'pending';
CREATE UNIQUE INDEX signal_questions_message ON signal_questions (message_id)
    WHERE message_id <> '';
CREATE INDEX signal_questions_unreturned ON signal_questions (question_id)
    WHERE status = 'answered' AND message_id <> '' AND returned_at = '';

-- signal_alerts: alerts of agents to their user.
CREATE TABLE signal_alerts (
    alert_id          TEXT PRIMARY KEY,                -- a- and a ULID
    sender            TEXT NOT NULL,                   -- agent
    encrypted         INTEGER NOT NULL DEFAULT 1,
    body              TEXT NOT NULL,                   -- encrypted: an age file in base64; otherwise JSON
    priority          INTEGER NOT NULL DEFAULT 0,
    session_id        TEXT NOT NULL DEFAULT '',
    message_id        TEXT NOT NULL DEFAULT '',        -- message to 'user' with the alert; '' if a command sent it
    created_at        TEXT NOT NULL,
    sealed_at         TEXT NOT NULL DEFAULT '',        -- when it was encrypted; later devices cannot read it
    trace_id          TEXT NOT NULL DEFAULT '',
    span_id           TEXT NOT NULL DEFAULT ''
);
CREATE INDEX signal_alerts_created ON signal_alerts (created_at);
CREATE INDEX signal_alerts_clear ON signal_alerts (created_at)
    WHERE encrypted = 0;
CREATE INDEX signal_alerts_sealed ON signal_alerts (sealed_at)
    WHERE encrypted <> 0;
CREATE UNIQUE INDEX signal_alerts_message ON signal_alerts (message_id)
    WHERE message_id <> '';

-- signal_devices: the user's phones. Mailroom uses a device only if a file beside the database also names its recipient.
-- Only an approval writes that file, so a row inserted by hand gets nothing. A push is a row of agent_message to
-- 'device:ID'.
CREATE TABLE signal_devices (
    device_id         TEXT PRIMARY KEY,                -- d- and a ULID; 'ntfy' is the ntfy topic
    name              TEXT NOT NULL,
    kind              TEXT NOT NULL DEFAULT 'app',     -- app or ntfy
    state             TEXT NOT NULL DEFAULT 'waiting', -- waiting (to be approved), active or revoked
    recipient         TEXT NOT NULL DEFAULT '',        -- age recipient of its key
    created_at        TEXT NOT NULL,
    approved_at       TEXT NOT NULL DEFAULT '',
    revoked_at        TEXT NOT NULL DEFAULT '',
    seen_at           TEXT NOT NULL DEFAULT '',        -- its last request, to the minute
    push_host         TEXT NOT NULL DEFAULT '',        -- host of its push service; '': none
    push_problem      TEXT NOT NULL DEFAULT '',        -- why pushes to it have stopped
    pushed_at         TEXT NOT NULL DEFAULT '',        -- last attempt to push
    push_outcome      TEXT NOT NULL DEFAULT '',        -- outcome of that attempt
    CONSTRAINT signal_devices_types CHECK (typeof(device_id) = 'text' AND 'blob' NOT IN (typeof(name), typeof(kind), typeof(state), typeof(recipient),
        typeof(created_at), typeof(approved_at), typeof(revoked_at), typeof(seen_at), typeof(push_host),
        typeof(push_problem), typeof(pushed_at), typeof(push_outcome)))
);

-- signal_subscriptions: the access tokens of devices, and how to push to each device. `mailroom sql` cannot read this table
-- or the next two.
CREATE TABLE signal_subscriptions (
    device_id         TEXT PRIMARY KEY,
    token_hash        TEXT NOT NULL DEFAULT '',        -- SHA-256 of its token, 64 hex digits
    endpoint          TEXT NOT NULL DEFAULT '',        -- URL
    p256dh            TEXT NOT NULL DEFAULT '',        -- its key for Web Push, base64url; for ntfy, the key for the buttons
    auth              TEXT NOT NULL DEFAULT ''         -- its secret for Web Push; for ntfy, the token of its server
);
CREATE INDEX signal_subscriptions_token ON signal_subscriptions (token_hash);

-- signal_keys: the VAPID keys that identify this database to push services.
CREATE TABLE signal_keys (
    name              TEXT PRIMARY KEY,                -- vapid
    public_key        TEXT NOT NULL,
    private_key       TEXT NOT NULL,
    created_at        TEXT NOT NULL
);

-- signal_pairings: codes that pair a phone. Each is valid once, for five minutes.
CREATE TABLE signal_pairings (
    selector          TEXT PRIMARY KEY,                -- first part of the code, by which the row is found
    secret_hash       TEXT NOT NULL,                   -- SHA-256 of the whole code
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL,
    tries             INTEGER NOT NULL DEFAULT 0       -- attempts with the right first part and a wrong rest
);


-- command_trace: one row for each run of a command, including failed runs. A scheduled run that changes nothing has no row.
-- The columns are those of an OpenTelemetry span.
CREATE TABLE command_trace (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    trace_id          TEXT NOT NULL,                   -- 32 hex digits
    span_id           TEXT NOT NULL UNIQUE,            -- 16 hex digits
    parent_span_id    TEXT NOT NULL DEFAULT '',        -- from TRACEPARENT
    name              TEXT NOT NULL,                   -- command
    kind              TEXT NOT NULL,                   -- CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER
    started_at        TEXT NOT NULL,
    ended_at          TEXT NOT NULL DEFAULT '',        -- '' while a long command runs, and if it was killed
    status            TEXT NOT NULL DEFAULT 'UNSET',   -- UNSET, OK, ERROR
    status_message    TEXT NOT NULL DEFAULT '',
    actor             TEXT NOT NULL DEFAULT '',        -- process: ORCHESTRATOR_INSTANCE_ID or HOST-PID
    caller            TEXT NOT NULL DEFAULT '',        -- agent that ran the command; '' is the administrator
    attributes        TEXT NOT NULL DEFAULT '{}'       -- JSON with OpenTelemetry attribute names
);
CREATE INDEX command_trace_started ON command_trace (started_at);
CREATE INDEX command_trace_trace ON command_trace (trace_id);


-- message_trace: one row for each event of a message, written in the transaction of the change. Rows are only added.
--
-- Events: created, adopted, held, claimed, released, attempt_failed, overdue, delivered, shown, read, acknowledged,
-- expired, failed, cancelled, replayed, archived, deleted. A question or an alert has its own events under its own ID:
-- created, answered, refused, read, expired, cancelled. A deleted event keeps the last error, and has as its detail a JSON
-- object with sender, recipient and message_type.
CREATE TABLE message_trace (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id        TEXT NOT NULL,
    at                TEXT NOT NULL,
    event             TEXT NOT NULL,
    old_status        TEXT,
    new_status        TEXT,
    attempt           INTEGER NOT NULL DEFAULT 0,      -- number of the attempt, from 1; 0: no attempt
    actor             TEXT NOT NULL DEFAULT '',
    span_id           TEXT NOT NULL DEFAULT '',        -- command_trace row of the command that caused it
    error             TEXT NOT NULL DEFAULT '',
    detail            TEXT NOT NULL DEFAULT ''         -- what the transport reports of the attempt, such as output or an answer
);
CREATE INDEX message_trace_message ON message_trace (message_id);
CREATE INDEX message_trace_gone ON message_trace (at)
    WHERE event = 'deleted';
CREATE INDEX message_trace_failed ON message_trace (at)
    WHERE event IN ('attempt_failed','failed','expired');

-- traffic: what happened to the messages of each recipient in each minute (kept for 48 hours) and each hour (kept for 90
-- days), and how many messages each agent sent. About once a minute, the process that delivers counts the new rows of
-- message_trace. The setting 'traffic.counted' has the ID of the last row counted. `mailroom stats` adds the rows after it.
--
-- The last three columns are histograms of milliseconds: JSON objects from bucket numbers to counts. Bucket n, from 0, holds
-- values of at least 1.1^n and less than 1.1^(n+1). Bucket -1 holds values of less than a millisecond.
CREATE TABLE traffic (
    span              TEXT NOT NULL,                   -- minute or hour
    at                TEXT NOT NULL,                   -- start of the minute or hour
    recipient         TEXT NOT NULL,
    sent              INTEGER NOT NULL DEFAULT 0,
    delivered         INTEGER NOT NULL DEFAULT 0,
    read              INTEGER NOT NULL DEFAULT 0,
    attempts_failed   INTEGER NOT NULL DEFAULT 0,
    failed            INTEGER NOT NULL DEFAULT 0,      -- dead letters, without expired messages
    expired           INTEGER NOT NULL DEFAULT 0,
    cancelled         INTEGER NOT NULL DEFAULT 0,
    wrote             INTEGER NOT NULL DEFAULT 0,      -- sent by the recipient, counted once per addressee
    queued_ms         TEXT NOT NULL DEFAULT '{}',      -- from when a message was due until its first attempt
    delivered_ms      TEXT NOT NULL DEFAULT '{}',      -- from when it was due until its delivery
    read_ms           TEXT NOT NULL DEFAULT '{}',      -- from its delivery until it was read
    PRIMARY KEY (span, at, recipient)
);


-- inbox_reading: an INSERT marks a message as read in agent_inbox, in agent_message, and in message_trace. The views
-- NAME_inbox of all agents use it for DELETE. It exists once because every connection parses all views and triggers.
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


-- settings: values that differ from the defaults. `mailroom setting list` shows all settings with their bounds.
--
-- Some rows are for the engine only. If a removed agent's name was given again, 'former.NAME' has the seq up to which
-- messages belong to the removed agent. 'config.version' changes with every change of agents, groups, settings, schedules,
-- or the version of the tables. 'schema.oldest' has that version, and the oldest version whose programs may use the tables.
-- 'database.id', together with the path, identifies the database to the user who made it or trusts it.
CREATE TABLE settings (
    key               TEXT PRIMARY KEY,
    value             TEXT NOT NULL,
    updated_at        TEXT NOT NULL,
    CONSTRAINT settings_types CHECK (typeof(key) = 'text' AND 'blob' NOT IN (typeof(value), typeof(updated_at)))
);

-- schedules: commands that `mailroom serve` runs. spec is a cron expression in local time, '@every 1s', or '@doorbell',
-- which means at every send.
CREATE TABLE schedules (
    name              TEXT PRIMARY KEY,
    spec              TEXT NOT NULL,
    command           TEXT NOT NULL,
    params            TEXT NOT NULL DEFAULT '{}',
    enabled           INTEGER NOT NULL DEFAULT 1,
    last_run_at       TEXT NOT NULL DEFAULT '',
    created_at        TEXT NOT NULL,
    CONSTRAINT schedules_types CHECK (typeof(name) = 'text' AND 'blob' NOT IN (typeof(spec), typeof(command), typeof(params), typeof(last_run_at),
        typeof(created_at)) AND typeof(enabled) = 'integer')
);

-- daemons: one row for each running `mailroom serve`, with its heartbeat.
CREATE TABLE daemons (
    instance          TEXT PRIMARY KEY,
    host              TEXT NOT NULL,
    pid               INTEGER NOT NULL,
    started_at        TEXT NOT NULL,
    seen_at           TEXT NOT NULL,
    listening         TEXT NOT NULL DEFAULT ''
);

-- exports: how far the traces were exported to an OpenTelemetry receiver (`mailroom serve --otlp`), and which daemon exports.
CREATE TABLE exports (
    name              TEXT PRIMARY KEY,                -- otlp
    events            INTEGER NOT NULL DEFAULT 0,      -- ID in message_trace up to which all rows were sent
    spans             INTEGER NOT NULL DEFAULT 0,      -- ID in command_trace up to which all rows but those in waiting were sent
    waiting           TEXT NOT NULL DEFAULT '[]',      -- JSON list: IDs up to spans of commands that had not ended
    refused           INTEGER NOT NULL DEFAULT 0,      -- spans that the receiver refused
    missed            INTEGER NOT NULL DEFAULT 0,      -- rows of message_trace that were deleted before they were sent
    sent_at           TEXT NOT NULL DEFAULT '',        -- when the receiver last accepted rows
    lease_owner       TEXT NOT NULL DEFAULT '',        -- daemon that exports
    lease_token       TEXT NOT NULL DEFAULT '',
    lease_until       TEXT NOT NULL DEFAULT ''
);
