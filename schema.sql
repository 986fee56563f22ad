-- Mailroom's tables. Read this file first: who has understood it has understood the program.
--
-- One row of agent_message is one message to one recipient, from `send` to its end. Agents put rows in, the engine
-- takes them out to wherever each recipient looks, and every step leaves a row in message_trace in the same
-- transaction, so that plain SQL can tell the whole story.
--
-- Conventions, true of every table here:
--   * A time is TEXT, RFC 3339, UTC, exactly three fractional digits: 2025-10-26T10:30:00.000Z. All of one width, so
--     that comparing them as text compares them as times. '' in a time column means "not (yet)".
--   * A column without a value of its own has a DEFAULT, so that a program which knows only a few columns can write.
--   * The syntax is that of SQLite 3.31, without STRICT and without foreign keys, so that old clients can read the file.
--   * The PRAGMA user_version is the version of this file; orchestrator/store/sqlite/tables/migrate.go holds the steps between versions.


-- agent_message: the source of truth.
--
-- The first eleven columns are those of the command document (route-inter-agent-messages), in its order and with its
-- meanings. A complete send by hand is
--
--     INSERT INTO agent_message (message_id, sender, recipient, payload)
--     VALUES ('m1', 'architect', 'code_developer', '{"n":1}');
--
-- It is pending and due now; the next delivery takes it. Nothing here refuses what such a writer may write: the engine
-- tidies it up ("adopts" it) before it acts on it, and a row that makes no sense fails alone.
--
--     status      means                                                   leaves it
--     pending     due now (or when its sender wants it), never failed     delivered, retry, failed, expired, cancelled
--     retry       an attempt failed; due again at next_attempt_at         the same
--     delivered   the recipient's transport has it                        expired when unread past its ttl; failed when
--                                                                         its recipient is removed unread; archived
--     failed      gave up, error_message says why (a dead letter)         replayed, or deleted by clear_old
--     expired     its time passed undelivered or unread (a dead letter)   deleted by clear_old
--     cancelled   taken back by its sender before it was delivered        deleted by clear_old
CREATE TABLE agent_message (
    message_id        TEXT NOT NULL UNIQUE,            -- msg- and a ULID when the engine makes it; yours is kept
    sender            TEXT NOT NULL,                   -- agent that sent it; 'system' is the engine itself
    recipient         TEXT NOT NULL,                   -- agent that gets it
    message_type      TEXT,                            -- task_assignment, error_report, ...: any word
    payload           TEXT,                            -- any JSON value, as text: numbers stay as they were written
    status            TEXT DEFAULT 'pending',
    created_at        TEXT,
    delivered_at      TEXT,                            -- NULL until it is delivered
    retry_count       INTEGER DEFAULT 0,               -- retries made: 0 during the first attempt, 3 after the fourth
    max_retries       INTEGER DEFAULT 3,
    error_message     TEXT,                            -- of the last failed attempt; NULL when none failed

    -- From here on the engine's own columns. A writer may leave all of them out.
    seq               INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of sending; never used twice
    traced_status     TEXT NOT NULL DEFAULT '',        -- the status that message_trace knows; differs: changed by hand
    next_attempt_at   TEXT NOT NULL DEFAULT '',        -- when a retry is due, or what was put off; '' is now
    review_at         TEXT NOT NULL DEFAULT '',        -- when the engine next looks whether it is overdue or expired
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
    hops              INTEGER NOT NULL DEFAULT 0,      -- messages that led to it one after the other: what it answers, or what its sender was handed or shown
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
    span_id           TEXT NOT NULL DEFAULT '',        -- the command_trace row of the send
    origin            TEXT NOT NULL DEFAULT '',        -- JSON: what a message in document 002's form said and no column holds
    not_before        TEXT NOT NULL DEFAULT '',        -- when its sender wants it delivered at the earliest; '' is at once
    chain_at          TEXT NOT NULL DEFAULT '',        -- when the first message was sent that led to it by its hops; '' if unknown
    held_from         TEXT NOT NULL DEFAULT '',        -- what not_before was before `mailroom hold` set it
    wake              TEXT                             -- now, rest, never: what it may cost a session; NULL: type and priority decide
);

-- Only live rows (pending and retry) stand in the indexes of the hot statements, so that claiming costs the same with
-- ten thousand finished rows and with five million. SQLite uses such an index only for a query that repeats its
-- condition to the letter: orchestrator/ledger/rows.go has it as one constant. x'' is greater than any text: agent_message_untraced
-- also has the rows with a BLOB where a name, an id or a status should stand.
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


-- dead_letter: what the engine gave up on. Replay with `mailroom dead_letters replay ID`.
CREATE VIEW dead_letter AS
    SELECT message_id, sender, recipient, message_type, payload, status, created_at, ended_at, retry_count, max_retries,
           error_message, multicast_id, trace_id
    FROM agent_message
    WHERE status IN ('failed','expired');


-- agent_inbox: the inbox transport. A message is delivered exactly once into it, because the insert and the change of
-- status are one transaction. Listing marks nothing; `mailroom wait` marks what it returns as read.
-- For each agent added with `mailroom agent add --inbox-view`, a view NAME_inbox(message_id, payload) shows what is unread of that agent's
-- part. INSTEAD OF triggers let the command document's own INSERT into it work, and make a DELETE from it mark as read, here,
-- in agent_message and in the trace.
CREATE TABLE agent_inbox (
    recipient         TEXT NOT NULL,
    message_id        TEXT NOT NULL,
    payload           TEXT,
    delivered_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
    read_at           TEXT NOT NULL DEFAULT '',
    told_in           TEXT NOT NULL DEFAULT '',        -- sessions of agent hosts that a digest has told of it, each between spaces
    UNIQUE (message_id, recipient)
);
CREATE INDEX agent_inbox_unread ON agent_inbox (recipient)
    WHERE read_at = '';

-- message_count: how many rows of agent_message each recipient has of each status, and how many of agent_inbox are unread, so
-- that nobody need count a million rows to say what waits. The rows of the archive are counted under the recipient ''. Statuses
-- are counted of the rows up to a seq, the n of ('', 'counted'), which moves on once in a thousand rows: who asks counts the rest.
-- A row that another program wrote counts once the engine has adopted it (traced_status). The engine counts what it changes, in
-- the transaction of the change; triggers count what others delete, read, or give to another recipient. Three things by hand are
-- not seen: INSERT OR REPLACE, an INSERT into agent_inbox itself, and a change of traced_status. `mailroom doctor` finds the
-- difference, and `mailroom recount` counts anew.
CREATE TABLE message_count (
    recipient         TEXT NOT NULL,
    state             TEXT NOT NULL,                   -- a status, unread, archived or counted
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


-- reading_lease: messages that a reader was handed and that are not read yet. Until the lease ends no other reader of the agent
-- gets them; then they are unread again. Acknowledging a message ends its lease for good. A lease begins with the answer that
-- carries the message (ends = answer): once that was written the message is read, or its lease is one of a session or of a time.
-- Of the posts of a thread the first that was handed out has the lease.
CREATE TABLE reading_lease (
    message_id        TEXT NOT NULL,
    recipient         TEXT NOT NULL,
    holder            TEXT NOT NULL DEFAULT '',        -- what took it: wait, a hook
    session           TEXT NOT NULL DEFAULT '',        -- of the agent's host
    host              TEXT NOT NULL DEFAULT '',        -- where pid counts: machine and PID namespace
    pid               INTEGER NOT NULL DEFAULT 0,      -- process whose end ends the lease; 0: none does
    born              TEXT NOT NULL DEFAULT '',        -- when that process was born, since numbers are used again
    shown_at          TEXT NOT NULL,
    until             TEXT NOT NULL,                   -- when it ends, unless an answer or a session does and the process is seen to live
    ends              TEXT NOT NULL DEFAULT 'time',    -- what ends it besides: answer, session, time
    PRIMARY KEY (message_id, recipient)
);
CREATE INDEX reading_lease_until ON reading_lease (until);
CREATE INDEX reading_lease_recipient ON reading_lease (recipient, until);


-- host_sessions: sessions of agent hosts (Claude Code, Codex, ...) in which agents work, as the hooks of these programs tell.
CREATE TABLE host_sessions (
    agent             TEXT NOT NULL,
    session           TEXT NOT NULL,                   -- as the program names it
    program           TEXT NOT NULL DEFAULT '',        -- claude, codex, gemini, opencode
    state             TEXT NOT NULL DEFAULT '',        -- working, idle, ended
    host              TEXT NOT NULL DEFAULT '',        -- where pid counts: machine and PID namespace
    pid               INTEGER NOT NULL DEFAULT 0,      -- of the program; 0: none proves that the session lives
    born              TEXT NOT NULL DEFAULT '',        -- when that process was born, since numbers are used again
    turns             INTEGER NOT NULL DEFAULT 0,      -- that messages have caused since the user last said anything
    continued         INTEGER NOT NULL DEFAULT 0,      -- ends of turns in a row that messages have put off
    waiter_pid        INTEGER NOT NULL DEFAULT 0,      -- process that wakes the session when messages come; 0: none
    waiter_born       TEXT NOT NULL DEFAULT '',
    nudged_seq        INTEGER NOT NULL DEFAULT 0,      -- newest message for which it was woken
    nudged_at         TEXT NOT NULL DEFAULT '',
    started_at        TEXT NOT NULL,
    seen_at           TEXT NOT NULL,                   -- last event, to the minute
    shown_id          TEXT NOT NULL DEFAULT '',        -- the message that it was shown last
    shown_at          TEXT NOT NULL DEFAULT '',        -- when that was shown
    prompted_at       TEXT NOT NULL DEFAULT '',        -- when its user last said anything
    PRIMARY KEY (agent, session)
);

-- context_use: how many messages, and bytes of them, were put into the contexts of the models that work as an agent, in each hour of the
-- clock (kept as long as traces), by who sent them, their type and the way: hook, urgent (beyond the budget), digest or tool. at is when the
-- hour begins. Bytes are those of a hook's answer; of a tool's, what the messages say.
CREATE TABLE context_use (at TEXT, agent TEXT, sender TEXT, message_type TEXT, way TEXT, messages INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (at, agent, sender, message_type, way));


-- given_names: agents that were added for a process of an agent host, `mailroom connect HOST --as auto`, and who has each name.
CREATE TABLE given_names (
    agent             TEXT PRIMARY KEY,
    program           TEXT NOT NULL DEFAULT '',        -- claude, gemini
    host              TEXT NOT NULL DEFAULT '',        -- where pid counts: machine and PID namespace
    pid               INTEGER NOT NULL DEFAULT 0,      -- of the program
    born              TEXT NOT NULL DEFAULT '',        -- when that process was born, since numbers are used again
    given_at          TEXT NOT NULL,
    ends_at           TEXT NOT NULL DEFAULT ''         -- when the agent is removed, since the process has ended; '': it has not
);


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
    updated_at           TEXT NOT NULL,
    batch                INTEGER NOT NULL DEFAULT 0,   -- messages of one attempt; 0: what is usual for the transport
    concurrency          INTEGER NOT NULL DEFAULT 0,   -- commands of the agent at the same time; 0: one
    allow_private        INTEGER NOT NULL DEFAULT 0,   -- 1: its webhook may lead to an address of this or a private network
    folder               TEXT NOT NULL DEFAULT '',     -- where its commands run: where the agent was added
    disabled             TEXT NOT NULL DEFAULT '',     -- why its transport is not used any more; '': it is
    host                 TEXT NOT NULL DEFAULT '',     -- that its files and commands are on, in a database on a server; '': any
    pass_env             TEXT NOT NULL DEFAULT '',     -- variables of the daemon's environment that its commands get; '': the usual ones
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

-- removed_agents: names that were removed. They are nobody's: acting does not register them anew, `mailroom agent add` does.
CREATE TABLE removed_agents (
    name              TEXT PRIMARY KEY,
    role              TEXT NOT NULL DEFAULT '',
    removed_at        TEXT NOT NULL,
    removed_by        TEXT NOT NULL DEFAULT ''         -- agent that asked; '' is the administrator
);

-- agent_secrets: with what the messages to a webhook are signed; the row of no agent has the secret of the marks by which hosts know
-- messages that were shown. `mailroom sql` cannot read this table.
CREATE TABLE agent_secrets (
    agent             TEXT PRIMARY KEY,
    secret            TEXT NOT NULL,                   -- whsec_ and base64
    created_at        TEXT NOT NULL
);

-- agent_runs: the last run of each agent that has a start command. A run is begun for messages, and lasts as long as its
-- command does.
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
    starts            INTEGER NOT NULL DEFAULT 0,      -- runs so far
    host              TEXT NOT NULL DEFAULT ''         -- where pid counts: machine and PID namespace
);

-- heartbeats: when an agent that has a limit to its silence was last heard of.
CREATE TABLE heartbeats (
    agent             TEXT PRIMARY KEY,
    heard_at          TEXT NOT NULL,
    silent_at         TEXT NOT NULL DEFAULT '',        -- when its silence is reported; '': it is idle, or it has been
    told_at           TEXT NOT NULL DEFAULT ''         -- when this silence was reported
);
CREATE INDEX heartbeats_silent ON heartbeats (silent_at)
    WHERE silent_at <> '';

-- bridge_problems: files that `ralph watch` found in an inbox folder and could not take in. Each is reported once.
CREATE TABLE bridge_problems (
    path              TEXT PRIMARY KEY,
    fingerprint       TEXT NOT NULL,                   -- by which it is known that it has not changed since
    problem           TEXT NOT NULL,
    found_at          TEXT NOT NULL
);


-- groups: a message to a group becomes one row per member. The group 'all' is everyone and is not stored.
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
    revoked_at        TEXT NOT NULL DEFAULT '',
    CONSTRAINT tokens_types CHECK (typeof(hash) = 'text' AND 'blob' NOT IN (typeof(agent), typeof(created_at), typeof(expires_at),
        typeof(revoked_at)) AND typeof(admin) = 'integer')
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
    read_seq          INTEGER NOT NULL DEFAULT 0,      -- seq of the newest post that the agent has read
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
CREATE INDEX team_requests_message ON team_requests (message_id);


-- waits: who waits for whom, as long as it does, one row for each agent that could end the wait. One that would close a
-- circle is refused.
CREATE TABLE waits (
    id                TEXT PRIMARY KEY,                -- wait- and a ULID
    waiter            TEXT NOT NULL,
    waits_for         TEXT NOT NULL,
    instance          TEXT NOT NULL,                   -- the process that waits, with what shows whether it lives
    since             TEXT NOT NULL,
    until             TEXT NOT NULL,                   -- ends by then at the latest; what is left behind means nothing
    filtered          INTEGER NOT NULL DEFAULT 0,      -- 1: only a message of waits_for ends it
    posts             INTEGER NOT NULL DEFAULT 0       -- 1: any post in the waiter's threads ends it, too
);
CREATE INDEX waits_waiter ON waits (waiter);


-- signal_questions: what agents asked the person who runs them. Each is answered by the first device that does, taken back
-- by who asked, or over at its time; it changes state once. An encrypted question's body can be read by the devices only,
-- and its answer by who asked.
CREATE TABLE signal_questions (
    question_id       TEXT PRIMARY KEY,                -- q- and a ULID
    asker             TEXT NOT NULL,                   -- agent
    status            TEXT NOT NULL DEFAULT 'pending', -- pending, answered, expired or cancelled
    encrypted         INTEGER NOT NULL DEFAULT 1,
    body              TEXT NOT NULL,                   -- encrypted: an age file in base64; otherwise JSON
    priority          INTEGER NOT NULL DEFAULT 0,
    session_id        TEXT NOT NULL DEFAULT '',
    thread_id         TEXT NOT NULL DEFAULT '',
    in_reply_to       TEXT NOT NULL DEFAULT '',        -- question that this one follows
    project_id        TEXT NOT NULL DEFAULT '',
    message_id        TEXT NOT NULL DEFAULT '',        -- of the message to 'user' that asks; '' when a command did
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL,
    ended_at          TEXT NOT NULL DEFAULT '',        -- when it was answered, expired or cancelled
    answer            TEXT NOT NULL DEFAULT '',        -- like body, for who asked
    answered_by       TEXT NOT NULL DEFAULT '',        -- device
    read_at           TEXT NOT NULL DEFAULT '',        -- when who asked first read the answer
    returned_at       TEXT NOT NULL DEFAULT '',        -- when the answer went back as a message
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

-- signal_alerts: what agents told that person.
CREATE TABLE signal_alerts (
    alert_id          TEXT PRIMARY KEY,                -- a- and a ULID
    sender            TEXT NOT NULL,                   -- agent
    encrypted         INTEGER NOT NULL DEFAULT 1,
    body              TEXT NOT NULL,                   -- encrypted: an age file in base64; otherwise JSON
    priority          INTEGER NOT NULL DEFAULT 0,
    session_id        TEXT NOT NULL DEFAULT '',
    message_id        TEXT NOT NULL DEFAULT '',        -- of the message to 'user' that tells it; '' when a command did
    created_at        TEXT NOT NULL,
    sealed_at         TEXT NOT NULL DEFAULT '',        -- when it was sealed: devices that came later cannot read it
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

-- signal_devices: the phones of that person. A device is used only when its recipient is also pinned in a file beside the
-- database, which approving it does: a row written by hand gets nothing. A push is a row of agent_message to 'device:ID'.
CREATE TABLE signal_devices (
    device_id         TEXT PRIMARY KEY,                -- d- and a ULID; 'ntfy' is the ntfy topic
    name              TEXT NOT NULL,
    kind              TEXT NOT NULL DEFAULT 'app',     -- app or ntfy
    state             TEXT NOT NULL DEFAULT 'waiting', -- waiting (to be approved), active or revoked
    recipient         TEXT NOT NULL DEFAULT '',        -- age recipient of its key
    created_at        TEXT NOT NULL,
    approved_at       TEXT NOT NULL DEFAULT '',
    revoked_at        TEXT NOT NULL DEFAULT '',
    seen_at           TEXT NOT NULL DEFAULT '',        -- when it last asked for something, to the minute
    push_host         TEXT NOT NULL DEFAULT '',        -- where it is pushed to; '' is nowhere
    push_problem      TEXT NOT NULL DEFAULT '',        -- why it is not pushed to any more
    pushed_at         TEXT NOT NULL DEFAULT '',        -- the last attempt
    push_outcome      TEXT NOT NULL DEFAULT '',        -- what came of it
    CONSTRAINT signal_devices_types CHECK (typeof(device_id) = 'text' AND 'blob' NOT IN (typeof(name), typeof(kind), typeof(state), typeof(recipient),
        typeof(created_at), typeof(approved_at), typeof(revoked_at), typeof(seen_at), typeof(push_host),
        typeof(push_problem), typeof(pushed_at), typeof(push_outcome)))
);

-- signal_subscriptions: what a device shows to be let in, and how it is pushed to. `mailroom sql` cannot read this table and
-- the next two.
CREATE TABLE signal_subscriptions (
    device_id         TEXT PRIMARY KEY,
    token_hash        TEXT NOT NULL DEFAULT '',        -- SHA-256 of its token, 64 hex digits
    endpoint          TEXT NOT NULL DEFAULT '',        -- URL
    p256dh            TEXT NOT NULL DEFAULT '',        -- its keys for Web Push, base64url; for ntfy, ours for its buttons
    auth              TEXT NOT NULL DEFAULT ''         -- the same; for ntfy, the token that its server wants
);
CREATE INDEX signal_subscriptions_token ON signal_subscriptions (token_hash);

-- signal_keys: the VAPID keys, by which push services know this database.
CREATE TABLE signal_keys (
    name              TEXT PRIMARY KEY,                -- vapid
    public_key        TEXT NOT NULL,
    private_key       TEXT NOT NULL,
    created_at        TEXT NOT NULL
);

-- signal_pairings: codes by which a phone becomes a device, each good once and for five minutes.
CREATE TABLE signal_pairings (
    selector          TEXT PRIMARY KEY,                -- the code's first part, by which it is found
    secret_hash       TEXT NOT NULL,                   -- SHA-256 of the whole code
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL,
    tries             INTEGER NOT NULL DEFAULT 0       -- with the right first part and a wrong rest
);


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
    ended_at          TEXT NOT NULL DEFAULT '',        -- '' while a command that takes long is at work, and if it was killed
    status            TEXT NOT NULL DEFAULT 'UNSET',   -- UNSET, OK, ERROR
    status_message    TEXT NOT NULL DEFAULT '',
    actor             TEXT NOT NULL DEFAULT '',        -- process: ORCHESTRATOR_INSTANCE_ID or HOST-PID
    caller            TEXT NOT NULL DEFAULT '',        -- agent that asked; '' is the administrator
    attributes        TEXT NOT NULL DEFAULT '{}'       -- JSON, OpenTelemetry attribute names
);
CREATE INDEX command_trace_started ON command_trace (started_at);
CREATE INDEX command_trace_trace ON command_trace (trace_id);


-- message_trace: one row per thing that happened to a message, written in the transaction of the change itself.
-- Append-only. Events: created, adopted, held, claimed, released, attempt_failed, overdue, delivered, shown, read,
-- acknowledged, expired, failed, cancelled, replayed, archived, deleted. A question or an alert has its events under its
-- own id: created, answered, refused, read, expired, cancelled. A deleted event keeps what a story needs: the last
-- error, and as detail a JSON object with sender, recipient and message_type.
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
    error             TEXT NOT NULL DEFAULT '',
    detail            TEXT NOT NULL DEFAULT ''         -- what the transport has to say of the attempt: output, an answer
);
CREATE INDEX message_trace_message ON message_trace (message_id);
CREATE INDEX message_trace_gone ON message_trace (at)
    WHERE event = 'deleted';
CREATE INDEX message_trace_failed ON message_trace (at)
    WHERE event IN ('attempt_failed','failed','expired');

-- traffic: what happened to messages in each minute (kept for 48 hours) and in each hour (kept for 90 days), by recipient, and how
-- many each agent wrote. It is
-- counted from message_trace, up to the row that the setting 'traffic.counted' names, about once a minute by whoever delivers;
-- `mailroom stats` adds what is behind that row, and so do you if you need it to the second. The last three columns are
-- histograms of milliseconds: JSON objects from the number of a bucket to how many it has. Bucket n, from 0, holds what is at least 1.1^n and
-- less than 1.1^(n+1); bucket -1 holds less than a millisecond.
CREATE TABLE traffic (
    span              TEXT NOT NULL,                   -- minute or hour
    at                TEXT NOT NULL,                   -- when that begins
    recipient         TEXT NOT NULL,
    sent              INTEGER NOT NULL DEFAULT 0,
    delivered         INTEGER NOT NULL DEFAULT 0,
    read              INTEGER NOT NULL DEFAULT 0,
    attempts_failed   INTEGER NOT NULL DEFAULT 0,
    failed            INTEGER NOT NULL DEFAULT 0,      -- dead letters, those that expired are not among them
    expired           INTEGER NOT NULL DEFAULT 0,
    cancelled         INTEGER NOT NULL DEFAULT 0,
    wrote             INTEGER NOT NULL DEFAULT 0,      -- sent by the recipient itself, one for each to whom it went
    queued_ms         TEXT NOT NULL DEFAULT '{}',      -- from when a delivered message was due to its first attempt
    delivered_ms      TEXT NOT NULL DEFAULT '{}',      -- from when it was due until it was delivered
    read_ms           TEXT NOT NULL DEFAULT '{}',      -- from its delivery until it was read
    PRIMARY KEY (span, at, recipient)
);


-- inbox_reading: an INSERT marks a message as read, in the inbox, at the message and in the trace. It is what a DELETE from an
-- agent's view NAME_inbox does, written once: every connection parses the views and triggers of all agents.
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


-- settings: what differs from the defaults. `mailroom setting list` shows all of them with their bounds.
-- A row 'former.NAME' has the seq up to which messages are of a removed agent, whose name another was given since.
-- The row 'config.version' changes with every change of agents, groups, settings or schedules, and with the version of the
-- tables; 'schema.oldest' has that version, and the oldest whose programs may use them. By 'database.id' and its path a database is
-- known to the user who made or trusts it.
CREATE TABLE settings (
    key               TEXT PRIMARY KEY,
    value             TEXT NOT NULL,
    updated_at        TEXT NOT NULL,
    CONSTRAINT settings_types CHECK (typeof(key) = 'text' AND 'blob' NOT IN (typeof(value), typeof(updated_at)))
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
    created_at        TEXT NOT NULL,
    CONSTRAINT schedules_types CHECK (typeof(name) = 'text' AND 'blob' NOT IN (typeof(spec), typeof(command), typeof(params), typeof(last_run_at),
        typeof(created_at)) AND typeof(enabled) = 'integer')
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

-- exports: how far the traces were sent to an OpenTelemetry receiver, and which daemon sends them: `mailroom serve --otlp`.
CREATE TABLE exports (
    name              TEXT PRIMARY KEY,                -- otlp
    events            INTEGER NOT NULL DEFAULT 0,      -- id of message_trace up to which all was sent
    spans             INTEGER NOT NULL DEFAULT 0,      -- id of command_trace up to which all was sent, but for waiting
    waiting           TEXT NOT NULL DEFAULT '[]',      -- JSON list: ids up to there of commands that had not ended
    refused           INTEGER NOT NULL DEFAULT 0,      -- spans that the receiver would not take
    missed            INTEGER NOT NULL DEFAULT 0,      -- rows of message_trace that were deleted before they were sent
    sent_at           TEXT NOT NULL DEFAULT '',        -- when the receiver last took something
    lease_owner       TEXT NOT NULL DEFAULT '',        -- daemon that sends
    lease_token       TEXT NOT NULL DEFAULT '',
    lease_until       TEXT NOT NULL DEFAULT ''
);
