-- From version 5 to 6: what belongs to one machine of several says to which. Once version 6 is released this file stays as it is; a
-- later version changes what it makes by a file of its own.

ALTER TABLE agents ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_runs ADD COLUMN host TEXT NOT NULL DEFAULT '';
