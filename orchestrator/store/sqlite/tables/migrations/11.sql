-- From version 10 to 11: what the commands of an agent get of the environment is a column, and reading_lease has what ends a lease also
-- where version 9 was made before that column was. Once version 11 is released this file stays as it is; a later version changes what
-- it makes by a file of its own.

ALTER TABLE agents ADD COLUMN pass_env TEXT NOT NULL DEFAULT '';
UPDATE agents SET pass_env = coalesce((SELECT value FROM settings WHERE key = 'pass_env.' || agents.name), '');
DELETE FROM settings WHERE key LIKE 'pass_env.%';

DROP INDEX reading_lease_until;
DROP INDEX reading_lease_recipient;
ALTER TABLE reading_lease RENAME TO reading_lease_10;
CREATE TABLE reading_lease (
    message_id        TEXT NOT NULL,
    recipient         TEXT NOT NULL,
    holder            TEXT NOT NULL DEFAULT '',
    session           TEXT NOT NULL DEFAULT '',
    host              TEXT NOT NULL DEFAULT '',
    pid               INTEGER NOT NULL DEFAULT 0,
    born              TEXT NOT NULL DEFAULT '',
    shown_at          TEXT NOT NULL,
    until             TEXT NOT NULL,
    ends              TEXT NOT NULL DEFAULT 'time',
    PRIMARY KEY (message_id, recipient)
);
INSERT INTO reading_lease (message_id, recipient, holder, session, host, pid, born, shown_at, until, ends)
SELECT message_id, recipient, holder, session, host, pid, born, shown_at, until, CASE session WHEN '' THEN 'time' ELSE 'session' END FROM reading_lease_10;
DROP TABLE reading_lease_10;
CREATE INDEX reading_lease_until ON reading_lease (until);
CREATE INDEX reading_lease_recipient ON reading_lease (recipient, until);
