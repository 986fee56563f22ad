package tables

import (
	"fmt"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// inboxView creates the inbox of an agent that the command document defines, NAME_inbox(message_id, payload). The
// view shows unread messages. These include messages that were handed to a reader whose lease has ended, even if
// nobody has returned them yet (see UnreadOf). INSTEAD OF triggers turn an INSERT into a delivery and a DELETE into
// a reading; only SQLite has them. inbox_reading in schema.sql adds such a reading to the trace like any other, in
// the same transaction, with the view as its actor. Keep the triggers short, since each connection parses those of
// all agents. The name has been checked and is safe in SQL; it is quoted because it may contain '-'.
const inboxView = `
	CREATE VIEW IF NOT EXISTS "%[1]s_inbox" AS
	    SELECT message_id, payload FROM agent_inbox WHERE recipient = '%[1]s' AND read_at = ''
	    UNION ALL SELECT i.message_id, i.payload FROM reading_lease l JOIN agent_inbox i USING (message_id, recipient)
	    LEFT JOIN agent_message m USING (message_id, recipient) WHERE l.recipient = '%[1]s'
	    AND l.until <= strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ','now') AND i.read_at <> '' AND coalesce(m.read_at, '') = '';
	CREATE TRIGGER IF NOT EXISTS "%[1]s_inbox_insert" INSTEAD OF INSERT ON "%[1]s_inbox" BEGIN
	    INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('%[1]s', NEW.message_id, NEW.payload)
	    ON CONFLICT (message_id, recipient) DO NOTHING;
	    INSERT INTO message_count (recipient, state, n) SELECT '%[1]s', 'unread', 1 WHERE changes() > 0
	    ON CONFLICT (recipient, state) DO UPDATE SET n = message_count.n + 1;
	END;
	CREATE TRIGGER IF NOT EXISTS "%[1]s_inbox_delete" INSTEAD OF DELETE ON "%[1]s_inbox" BEGIN
	    INSERT INTO inbox_reading (recipient, message_id) VALUES ('%[1]s', OLD.message_id);
	    DELETE FROM reading_lease WHERE message_id = OLD.message_id AND recipient = '%[1]s';
	END`

// HasInboxTable reports whether a program that uses only the command document has created a table
// NAME_inbox(message_id, payload).
func (k Keeper) HasInboxTable(name string) (bool, error) {
	columns, err := k.inboxTable(name)
	return slices.Equal(columns, inboxColumns), err
}

var inboxColumns = []string{"message_id", "payload"}

// inboxTable returns the columns of the table NAME_inbox, sorted, or none if there is no such table.
func (k Keeper) inboxTable(name string) ([]string, error) {
	return k.Texts(`SELECT lower(c.name) FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND lower(t.name) = ? ORDER BY 1`, name+"_inbox")
}

// MakeInboxView creates the inbox view of an agent at the given time. The error is conflict, see takeOverInbox.
func (k Keeper) MakeInboxView(name, at string) error {
	if err := k.takeOverInbox(name, at); err != nil {
		return err
	}
	return k.Script(fmt.Sprintf(inboxView, name))
}

// takeOverInbox removes a table with the name of an agent's inbox view, which a program that uses only the command
// document has created. The rows of the table become unread messages of the agent. The error is conflict if the
// table has other columns.
func (k Keeper) takeOverInbox(name, at string) error {
	columns, err := k.inboxTable(name)
	if err != nil || len(columns) == 0 {
		return err
	}
	if !slices.Equal(columns, inboxColumns) {
		return orchestrator.Errorf(orchestrator.Conflict,
			"the database already has a table %s_inbox with columns other than message_id and payload", name).
			WithHint("Rename that table, or choose another name for the agent")
	}
	n, err := k.Exec(`
		INSERT INTO agent_inbox (recipient, message_id, payload, delivered_at)
		SELECT ?1, coalesce(message_id, 'inbox-' || rowid), CAST(payload AS TEXT), ?2
			FROM "`+name+`_inbox" WHERE true ORDER BY rowid
		ON CONFLICT (message_id, recipient) DO NOTHING`, name, at)
	if err == nil {
		err = k.Run(store.AddCount, name, "unread", n)
	}
	if err != nil {
		return err
	}
	return k.Script(`DROP TABLE "` + name + `_inbox"`)
}

// InboxViews returns the agents that have an inbox view.
func (k Keeper) InboxViews() ([]string, error) {
	return k.Texts(`SELECT a.name FROM sqlite_schema s JOIN agents a ON s.name = a.name || '_inbox' WHERE s.type = 'view'`)
}

// Triggers calls each with the name of every trigger on a table and the statement that created it.
func (k Keeper) Triggers(each func(name, text string)) error {
	return k.Query(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'
		AND tbl_name IN (SELECT name FROM sqlite_schema WHERE type = 'table')`,
		func(row store.Row) error {
			each(row.Text(0), row.Text(1))
			return nil
		})
}

// DropInboxView drops the inbox view of an agent together with its triggers.
func (k Keeper) DropInboxView(name string) error {
	return k.Script(`DROP VIEW IF EXISTS "` + name + `_inbox"`)
}
