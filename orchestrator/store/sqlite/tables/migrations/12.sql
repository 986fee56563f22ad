-- From version 11 to 12: the tables of what is configured hold no values of other types than their columns' and no other names than
-- the engine takes. What is not so was looked for before. Once version 12 is released this file stays as it is; a later version changes
-- what it makes by a file of its own.

PRAGMA legacy_alter_table = ON; -- views of others go on naming the tables
DROP INDEX tokens_agent;

ALTER TABLE agents RENAME TO agents_11;
CREATE TABLE agents (
    name                 TEXT PRIMARY KEY,
    role                 TEXT NOT NULL DEFAULT '',
    deliver              TEXT NOT NULL DEFAULT 'inbox',
    fallback             TEXT NOT NULL DEFAULT '',
    timeout_seconds      INTEGER NOT NULL DEFAULT 0,
    start_command        TEXT NOT NULL DEFAULT '',
    silent_after_seconds INTEGER NOT NULL DEFAULT 0,
    plan_mode_required   INTEGER NOT NULL DEFAULT 0,
    registered_by        TEXT NOT NULL DEFAULT '',
    created_at           TEXT NOT NULL,
    updated_at           TEXT NOT NULL,
    batch                INTEGER NOT NULL DEFAULT 0,
    concurrency          INTEGER NOT NULL DEFAULT 0,
    allow_private        INTEGER NOT NULL DEFAULT 0,
    folder               TEXT NOT NULL DEFAULT '',
    disabled             TEXT NOT NULL DEFAULT '',
    host                 TEXT NOT NULL DEFAULT '',
    pass_env             TEXT NOT NULL DEFAULT '',
    CONSTRAINT agents_types CHECK (typeof(name) = 'text' AND 'blob' NOT IN (typeof(role), typeof(deliver), typeof(fallback),
        typeof(start_command), typeof(registered_by), typeof(created_at), typeof(updated_at), typeof(folder),
        typeof(disabled), typeof(host), typeof(pass_env)) AND typeof(timeout_seconds) = 'integer'
        AND typeof(silent_after_seconds) = 'integer' AND typeof(plan_mode_required) = 'integer' AND typeof(batch) = 'integer'
        AND typeof(concurrency) = 'integer' AND typeof(allow_private) = 'integer'),
    CONSTRAINT agents_name CHECK (length(name) BETWEEN 1 AND 57 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''
        AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''
        AND name NOT IN ('agent','auto','all','user','operator','system'))
);
INSERT INTO agents (name, role, deliver, fallback, timeout_seconds, start_command, silent_after_seconds, plan_mode_required,
    registered_by, created_at, updated_at, batch, concurrency, allow_private, folder, disabled, host,
    pass_env)
SELECT name, role, deliver, fallback, timeout_seconds, start_command, silent_after_seconds, plan_mode_required,
    registered_by, created_at, updated_at, batch, concurrency, allow_private, folder, disabled, host,
    pass_env
FROM agents_11 ORDER BY rowid;
DROP TABLE agents_11;

ALTER TABLE groups RENAME TO groups_11;
CREATE TABLE groups (
    name              TEXT PRIMARY KEY,
    created_at        TEXT NOT NULL,
    CONSTRAINT groups_types CHECK (typeof(name) = 'text' AND 'blob' NOT IN (typeof(created_at))),
    CONSTRAINT groups_name CHECK (length(name) BETWEEN 1 AND 57 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''
        AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''
        AND name NOT IN ('agent','auto','all','user','operator','system'))
);
INSERT INTO groups (name, created_at)
SELECT name, created_at
FROM groups_11 ORDER BY rowid;
DROP TABLE groups_11;

ALTER TABLE group_members RENAME TO group_members_11;
CREATE TABLE group_members (
    group_name        TEXT NOT NULL,
    agent             TEXT NOT NULL,
    position          INTEGER NOT NULL,
    PRIMARY KEY (group_name, agent),
    CONSTRAINT group_members_types CHECK (typeof(group_name) = 'text' AND 'blob' NOT IN (typeof(agent)) AND typeof(position) = 'integer'),
    CONSTRAINT group_members_agent CHECK (length(agent) BETWEEN 1 AND 57 AND ltrim(agent, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''
        AND ltrim(substr(agent, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''
        AND agent NOT IN ('agent','auto','all','user','operator','system'))
);
INSERT INTO group_members (group_name, agent, position)
SELECT group_name, agent, position
FROM group_members_11 ORDER BY rowid;
DROP TABLE group_members_11;

ALTER TABLE tokens RENAME TO tokens_11;
CREATE TABLE tokens (
    hash              TEXT PRIMARY KEY,
    agent             TEXT NOT NULL,
    admin             INTEGER NOT NULL DEFAULT 0,
    created_at        TEXT NOT NULL,
    expires_at        TEXT NOT NULL DEFAULT '',
    revoked_at        TEXT NOT NULL DEFAULT '',
    CONSTRAINT tokens_types CHECK (typeof(hash) = 'text' AND 'blob' NOT IN (typeof(agent), typeof(created_at), typeof(expires_at),
        typeof(revoked_at)) AND typeof(admin) = 'integer')
);
INSERT INTO tokens (hash, agent, admin, created_at, expires_at, revoked_at)
SELECT hash, agent, admin, created_at, expires_at, revoked_at
FROM tokens_11 ORDER BY rowid;
DROP TABLE tokens_11;
CREATE INDEX tokens_agent ON tokens (agent);

ALTER TABLE signal_devices RENAME TO signal_devices_11;
CREATE TABLE signal_devices (
    device_id         TEXT PRIMARY KEY,
    name              TEXT NOT NULL,
    kind              TEXT NOT NULL DEFAULT 'app',
    state             TEXT NOT NULL DEFAULT 'waiting',
    recipient         TEXT NOT NULL DEFAULT '',
    created_at        TEXT NOT NULL,
    approved_at       TEXT NOT NULL DEFAULT '',
    revoked_at        TEXT NOT NULL DEFAULT '',
    seen_at           TEXT NOT NULL DEFAULT '',
    push_host         TEXT NOT NULL DEFAULT '',
    push_problem      TEXT NOT NULL DEFAULT '',
    pushed_at         TEXT NOT NULL DEFAULT '',
    push_outcome      TEXT NOT NULL DEFAULT '',
    CONSTRAINT signal_devices_types CHECK (typeof(device_id) = 'text' AND 'blob' NOT IN (typeof(name), typeof(kind), typeof(state), typeof(recipient),
        typeof(created_at), typeof(approved_at), typeof(revoked_at), typeof(seen_at), typeof(push_host),
        typeof(push_problem), typeof(pushed_at), typeof(push_outcome)))
);
INSERT INTO signal_devices (device_id, name, kind, state, recipient, created_at, approved_at, revoked_at, seen_at, push_host,
    push_problem, pushed_at, push_outcome)
SELECT device_id, name, kind, state, recipient, created_at, approved_at, revoked_at, seen_at, push_host,
    push_problem, pushed_at, push_outcome
FROM signal_devices_11 ORDER BY rowid;
DROP TABLE signal_devices_11;

ALTER TABLE settings RENAME TO settings_11;
CREATE TABLE settings (
    key               TEXT PRIMARY KEY,
    value             TEXT NOT NULL,
    updated_at        TEXT NOT NULL,
    CONSTRAINT settings_types CHECK (typeof(key) = 'text' AND 'blob' NOT IN (typeof(value), typeof(updated_at)))
);
INSERT INTO settings (key, value, updated_at)
SELECT key, value, updated_at
FROM settings_11 ORDER BY rowid;
DROP TABLE settings_11;

ALTER TABLE schedules RENAME TO schedules_11;
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
INSERT INTO schedules (name, spec, command, params, enabled, last_run_at, created_at)
SELECT name, spec, command, params, enabled, last_run_at, created_at
FROM schedules_11 ORDER BY rowid;
DROP TABLE schedules_11;

PRAGMA legacy_alter_table = OFF;
