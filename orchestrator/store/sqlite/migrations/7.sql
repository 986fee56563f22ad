-- From version 6 to 7: sessions of agent hosts. Once version 7 is released this file stays as it is; a later version changes what
-- it makes by a file of its own.

CREATE TABLE host_sessions (
    agent             TEXT NOT NULL,
    session           TEXT NOT NULL,
    program           TEXT NOT NULL DEFAULT '',
    state             TEXT NOT NULL DEFAULT '',
    host              TEXT NOT NULL DEFAULT '',
    pid               INTEGER NOT NULL DEFAULT 0,
    born              TEXT NOT NULL DEFAULT '',
    turns             INTEGER NOT NULL DEFAULT 0,
    continued         INTEGER NOT NULL DEFAULT 0,
    waiter_pid        INTEGER NOT NULL DEFAULT 0,
    waiter_born       TEXT NOT NULL DEFAULT '',
    nudged_seq        INTEGER NOT NULL DEFAULT 0,
    nudged_at         TEXT NOT NULL DEFAULT '',
    started_at        TEXT NOT NULL,
    seen_at           TEXT NOT NULL,
    PRIMARY KEY (agent, session)
);
