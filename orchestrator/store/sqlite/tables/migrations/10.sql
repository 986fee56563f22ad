-- From version 9 to 10: when a chain of messages began, what a session was shown last, and when its user last said anything. Once
-- version 10 is released this file stays as it is; a later version changes what it makes by a file of its own.

ALTER TABLE agent_message ADD COLUMN chain_at TEXT NOT NULL DEFAULT '';
ALTER TABLE host_sessions ADD COLUMN shown_id TEXT NOT NULL DEFAULT '';
ALTER TABLE host_sessions ADD COLUMN shown_at TEXT NOT NULL DEFAULT '';
ALTER TABLE host_sessions ADD COLUMN prompted_at TEXT NOT NULL DEFAULT '';
