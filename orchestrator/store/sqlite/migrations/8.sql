-- From version 7 to 8: names that sessions of agent hosts are given. Once version 8 is released this file stays as it is; a later
-- version changes what it makes by a file of its own.

CREATE TABLE given_names (
    agent             TEXT PRIMARY KEY,
    program           TEXT NOT NULL DEFAULT '',
    host              TEXT NOT NULL DEFAULT '',
    pid               INTEGER NOT NULL DEFAULT 0,
    born              TEXT NOT NULL DEFAULT '',
    given_at          TEXT NOT NULL,
    ends_at           TEXT NOT NULL DEFAULT ''
);
