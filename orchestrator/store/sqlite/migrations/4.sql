-- From version 3 to 4: questions reach a person. Once version 4 is released this file stays as it is; a later version
-- changes what it makes by a file of its own.

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
    push_outcome      TEXT NOT NULL DEFAULT ''         -- what came of it
);

CREATE TABLE signal_subscriptions (
    device_id         TEXT PRIMARY KEY,
    token_hash        TEXT NOT NULL DEFAULT '',        -- SHA-256 of its token, 64 hex digits
    endpoint          TEXT NOT NULL DEFAULT '',        -- URL
    p256dh            TEXT NOT NULL DEFAULT '',        -- its keys for Web Push, base64url; for ntfy, ours for its buttons
    auth              TEXT NOT NULL DEFAULT ''         -- the same; for ntfy, the token that its server wants
);
CREATE INDEX signal_subscriptions_token ON signal_subscriptions (token_hash);

CREATE TABLE signal_keys (
    name              TEXT PRIMARY KEY,                -- vapid
    public_key        TEXT NOT NULL,
    private_key       TEXT NOT NULL,
    created_at        TEXT NOT NULL
);

CREATE TABLE signal_pairings (
    selector          TEXT PRIMARY KEY,                -- the code's first part, by which it is found
    secret_hash       TEXT NOT NULL,                   -- SHA-256 of the whole code
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL,
    tries             INTEGER NOT NULL DEFAULT 0       -- with the right first part and a wrong rest
);
