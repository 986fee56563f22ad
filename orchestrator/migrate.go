package orchestrator

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"mailroom"
)

// schemaVersion is the version of schema.sql, kept in PRAGMA user_version. A change of schema.sql that existing
// databases must follow adds one, and a step.
const schemaVersion = 2

// steps lead from each version to the next: steps[v] turns version v into v+1. Each runs in the one transaction that
// migrates the file. A migrated database must equal a fresh one; TestMigratedEqualsFresh compares them.
//
// Version 0 is a database without a version: an empty file, or one in which a program that knows only the command
// document made its own agent_message.
var steps = []func(c *conn) error{
	0: stepFromDocument,
	1: stepNewObjects, // threads, teams, tokens and waits
}

// documentColumns are the columns that the command document gives agent_message.
var documentColumns = []string{
	"message_id", "sender", "recipient", "message_type", "payload", "status", "created_at", "delivered_at",
	"retry_count", "max_retries", "error_message",
}

// stepFromDocument makes the tables. An agent_message that is there already is adopted if it has the document's eleven
// columns: its rows are copied in their order, and the next delivery finds and tidies them. Otherwise it is refused.
func stepFromDocument(c *conn) error {
	columns, err := c.texts(`SELECT name FROM pragma_table_info('agent_message')`)
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		if err := c.script(mailroom.Schema); err != nil {
			return err
		}
		return seed(c)
	}
	for _, want := range documentColumns {
		if !slices.ContainsFunc(columns, func(have string) bool { return strings.EqualFold(have, want) }) {
			return Errorf(Unavailable, "the database has a table agent_message without the column %s", want).
				WithHint("It belongs to another program. Name another file with --db")
		}
	}
	if err := c.script(`ALTER TABLE agent_message RENAME TO agent_message_adopted`); err != nil {
		return err
	}
	if err := c.script(mailroom.Schema); err != nil {
		return err
	}
	list := strings.Join(documentColumns, ", ")
	copied := strings.Replace(list, "payload", "CAST(payload AS TEXT)", 1)
	if err := c.script(`INSERT INTO agent_message (` + list + `) SELECT ` + copied + ` FROM agent_message_adopted ORDER BY rowid;
		DROP TABLE agent_message_adopted`); err != nil {
		return fmt.Errorf("taking over the table agent_message: %w", err)
	}
	return seed(c)
}

// stepNewObjects makes the tables, indexes and views of schema.sql that are not there yet. It is all that a version needs
// which changes none of the tables before it.
func stepNewObjects(c *conn) error {
	have, err := c.texts(`SELECT name FROM sqlite_schema`)
	if err != nil {
		return err
	}
	for _, found := range createStatement.FindAllStringSubmatch(mailroom.Schema, -1) {
		if slices.Contains(have, found[1]) {
			continue
		}
		if err := c.script(found[0]); err != nil {
			return fmt.Errorf("making %s: %w", found[1], err)
		}
	}
	return nil
}

// createStatement matches one statement of schema.sql, and the name of what it makes. A ';' stands at the end of a
// statement's last line and of no other line, unless in a comment.
var createStatement = regexp.MustCompile(`(?m)^CREATE (?:TABLE|INDEX|VIEW) (\w+)(?s:.*?);$`)

// migrate brings the database to schemaVersion in one transaction. Many processes may call it at once on a new file:
// the first to get the write lock does the work, the others find it done.
func migrate(c *conn) error {
	version, err := checkVersion(c)
	if err != nil || version == schemaVersion {
		return err
	}
	if err := c.script("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := migrateLocked(c); err != nil {
		c.script("ROLLBACK")
		return err
	}
	return c.script("COMMIT")
}

func migrateLocked(c *conn) error {
	version, err := checkVersion(c)
	if err != nil {
		return err
	}
	for ; version < schemaVersion; version++ {
		if err := steps[version](c); err != nil {
			return err
		}
	}
	return c.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion))
}

// checkVersion returns the version of an open database, and refuses one that is newer or another program's.
func checkVersion(c *conn) (int, error) {
	var version, application int64
	err := c.query(`SELECT user_version, application_id FROM pragma_user_version, pragma_application_id`,
		func(row []driver.Value) error {
			version, application = asInt(row[0]), asInt(row[1])
			return nil
		})
	switch {
	case err != nil:
		return 0, err
	case application != 0 && application != applicationID, application == 0 && version != 0:
		return 0, Errorf(Unavailable, "the database belongs to another program (application_id %d, user_version %d)", application, version).
			WithHint("Name another file with --db")
	case version > schemaVersion:
		return 0, Errorf(Unavailable, "the database has version %d of the tables; this program knows %d", version, schemaVersion).
			WithHint("A newer mailroom has used it: install that version or a later one")
	}
	return int(version), nil
}

// prepareFile makes a new, empty file as the database needs it: mode 0600 in a folder with mode 0700, pages that can be
// given back to the file system, WAL. What exists is left alone, except that a database in another journal mode is
// switched to WAL.
func prepareFile(c *conn) error {
	pages, err := c.number("PRAGMA page_count")
	if err != nil {
		return err
	}
	if pages == 0 {
		if err := c.script("PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
			return err
		}
	}
	return c.script("PRAGMA journal_mode = WAL")
}

// createEmpty makes the file if there is none, and no -wal of one that has gone either. Nobody can have it open then, so that closing it here drops no lock.
func createEmpty(path string) error {
	if orphanedWAL(path) {
		return databaseMissing(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// syncFolders syncs a folder and all above it: a new folder lasts only once the one above is synced, and a power cut must
// not take the database with all that was answered since. Nobody answers before the file has its version, so whoever
// gives it that does this first, whichever process made the folders. A folder that we may not open was not made by us,
// and some file systems have no sync of folders; only an error of the disk counts.
func syncFolders(path string) error {
	for {
		if err := syncFolder(path); errors.Is(err, syscall.EIO) {
			return err
		}
		above := filepath.Dir(path)
		if above == path {
			return nil
		}
		path = above
	}
}
