-- From version 12 to 13: nothing looks at traced_status any more when a message changes. The trigger took a seventh of the
-- instructions of a delivery, for what only a hand can do. Once version 13 is released this file stays as it is; a later version
-- changes what it makes by a file of its own.

DROP TRIGGER IF EXISTS agent_message_disowned;
