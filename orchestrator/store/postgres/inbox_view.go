package postgres

import (
	"context"
	"fmt"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// inboxView creates the inbox of an agent that the command document defines, NAME_inbox(message_id, payload), as on
// SQLite. The view shows unread messages, and messages that were handed to a reader whose lease has ended. Its
// triggers are in triggers.sql. The name has been checked and is safe in SQL; with its suffix it fits the server's
// limit for names.
const inboxView = `
	CREATE VIEW "%[1]s_inbox" AS
	    SELECT message_id, payload FROM agent_inbox WHERE recipient = '%[1]s' AND read_at = ''
	    UNION ALL SELECT i.message_id, i.payload FROM reading_lease l JOIN agent_inbox i USING (message_id, recipient)
	    LEFT JOIN agent_message m USING (message_id, recipient) WHERE l.recipient = '%[1]s'
	    AND l.until <= strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ','now') AND i.read_at <> '' AND coalesce(m.read_at, '') = '';
	CREATE TRIGGER inbox_put INSTEAD OF INSERT ON "%[1]s_inbox" FOR EACH ROW EXECUTE FUNCTION inbox_put(%[2]s);
	CREATE TRIGGER inbox_read INSTEAD OF DELETE ON "%[1]s_inbox" FOR EACH ROW EXECUTE FUNCTION inbox_read(%[2]s);
	DO $$ BEGIN
	    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '%[3]s') THEN
	        GRANT SELECT ON "%[1]s_inbox" TO %[3]s;
	    END IF;
	END $$`

// HasInboxTable returns false, because no program creates the tables of the command document on a server.
func (c *conn) HasInboxTable(string) (bool, error) { return false, nil }

// MakeInboxView creates the inbox view of an agent. The error is conflict if another object has the name of the
// view.
func (c *conn) MakeInboxView(name, _ string) error {
	var schema, kind string
	err := (&store.Conn{Driver: c}).Query(`SELECT current_schema(),
		coalesce((SELECT relkind::text FROM pg_class WHERE oid = to_regclass('"' || ?1 || '_inbox"')), '')`,
		func(row store.Row) error {
			schema, kind = row.Text(0), row.Text(1)
			return nil
		}, name)
	if err != nil {
		return err
	}
	switch kind {
	case "v":
		return nil // of a removed agent of the same name, whose view somebody was reading
	case "":
	default:
		return orchestrator.Errorf(orchestrator.Conflict,
			"the schema already has an object named %s_inbox that is not a view", name).
			WithHint("Rename that object, or choose another name for the agent")
	}
	arguments := fmt.Sprintf("'%s', '%d', '%d', '%d', '%d'", name, writing, lockNumber(schema, ""), recipient,
		lockNumber(schema, name))
	return c.Script(fmt.Sprintf(inboxView, name, arguments, auditRole))
}

// DropInboxView drops the inbox view of an agent together with its triggers. If somebody is reading the view, which
// may take as long as a pg_dump, the view is kept, because all writers would have to wait. It then shows the inbox
// of an agent that does not exist, which is empty.
func (c *conn) DropInboxView(name string) error {
	before, _, err := (&store.Conn{Driver: c}).Text(`SELECT current_setting('lock_timeout')`)
	if err != nil {
		return err
	}
	err = c.Script(`SAVEPOINT view; SET LOCAL lock_timeout = '100ms'; DROP VIEW IF EXISTS "` + name +
		`_inbox"; SET LOCAL lock_timeout = '` + before + `'; RELEASE view`)
	if codeOf(err) == lockNotAvailable {
		return c.Do(context.Background(), `ROLLBACK TO view; RELEASE view`)
	}
	return err
}

// InboxViews returns the agents that have an inbox view.
func (c *conn) InboxViews() ([]string, error) {
	return (&store.Conn{Driver: c}).Texts(`SELECT name FROM pg_class JOIN agents ON relname = name || '_inbox'
		WHERE relkind = 'v' AND relnamespace = current_schema()::regnamespace`)
}
