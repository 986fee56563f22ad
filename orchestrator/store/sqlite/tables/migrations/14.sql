-- From version 13 to 14: what a message may cost a session of an agent host, as its sender and its recipient want it, and what
-- messages put into contexts. Once version 14 is released this file stays as it is; a later version changes what it makes by a file of
-- its own.

ALTER TABLE agent_message ADD COLUMN held_from TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_message ADD COLUMN wake TEXT;
ALTER TABLE agent_message_archive ADD COLUMN wake TEXT;
ALTER TABLE agent_inbox ADD COLUMN told_in TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN wake TEXT NOT NULL DEFAULT '' CHECK (typeof(wake) = 'text');

CREATE TABLE context_use (at TEXT, agent TEXT, sender TEXT, message_type TEXT, way TEXT, messages INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (at, agent, sender, message_type, way));
