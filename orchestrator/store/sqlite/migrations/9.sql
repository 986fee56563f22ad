-- From version 8 to 9: how far the traces were sent. Once version 9 is released this file stays as it is; a later version changes what
-- it makes by a file of its own.

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
