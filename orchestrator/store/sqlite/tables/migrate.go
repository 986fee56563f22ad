// Package tables makes the tables of a database file, and brings those of older versions to the present one. It also
// numbers their rows, fills and empties them when a database moves, and makes the views of inboxes.
package tables

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
	"mailroom/orchestrator/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// firstVersion is the oldest version of the tables that can be brought to the present one, and lastMigrating the last
// commit whose program can bring older ones to it.
const (
	firstVersion  = 9
	lastMigrating = "cdb7c373da542a3167cedbf9ffe0e71e27990d87"
)

// Version is that of schema.sql, kept in PRAGMA user_version: the one to which the last migration leads. A change of
// schema.sql that existing databases must follow comes with a migration.
var Version = func() int {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic(err)
	}
	return firstVersion + len(files)
}()

// migration returns the script that leads from a version of the tables to the next: the file migrations/N.sql, N being
// the next version. It holds its own list of what it makes, so that a later schema.sql changes nothing of it. All run
// in the one transaction that migrates the file. A migrated database must equal a fresh one;
// TestMigratedFromOlderVersion compares them.
func migration(version int) string {
	text, err := migrationFiles.ReadFile(fmt.Sprintf("migrations/%d.sql", version+1))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// applicationID marks a file as Mailroom's in its header ("MAIL").
const applicationID = 0x4d41494c

// oldestVersion is the oldest version of the tables whose programs may go on using a database of this one, and write
// into it: a change that only adds what they can do without leaves it as it is, any other raises it to Version.
// Every migration stores it in the row of settings that store.SchemaOldest names, since an older program cannot know.
// It is a variable for a test that builds the next version.
var oldestVersion = 12

// ErrForeign is the cause of an error about a database that no mailroom has made.
var ErrForeign = errors.New("the file belongs to another program")

// Keeper keeps the tables of the database that a connection has open: it is what a store.Driver does with them.
type Keeper struct{ *store.Conn }

// Admit refuses tables that a newer program has made unfit for this one.
func (k Keeper) Admit() error {
	_, err := CheckVersion(k.Conn)
	return err
}

// documentColumns are the columns that the command document gives agent_message.
var documentColumns = []string{
	"message_id", "sender", "recipient", "message_type", "payload", "status", "created_at", "delivered_at",
	"retry_count", "max_retries", "error_message",
}

// MayMigrate refuses a database that must not be migrated: one of a newer mailroom, one in which names of ours are
// taken, and one of another program unless a database is to be made there. It looks at one moment, since others may be
// migrating the file now.
func MayMigrate(c *store.Conn, making bool) error {
	if err := c.Script("BEGIN"); err != nil {
		return err
	}
	defer c.Script("ROLLBACK")
	version, err := CheckVersion(c)
	if err != nil || version >= Version {
		return err
	}
	if err := checkRoom(c, version); err != nil || version > 0 || making {
		return err
	}
	return checkOurs(c)
}

// checkOurs refuses a file in which another program has tables, and none of them is agent_message: who names it has
// most likely named the wrong one.
func checkOurs(c *store.Conn) error {
	have, err := c.Texts(`SELECT lower(name) FROM sqlite_schema WHERE type = 'table'
		AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	if err != nil || len(have) == 0 || slices.Contains(have, "agent_message") {
		return err
	}
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the database has tables of another program, such as %s, but no Mailroom tables", have[0]).
		WithHint("To use another file, set --db or MAILROOM_DB. To add Mailroom's tables to this file, run `mailroom --db FILE init` with the path of this file")
}

// checkRoom refuses a database of another program before anything is changed in it: one whose agent_message lacks a
// column of the document's, or that has a table (an index, ...) of its own under a name which is to be made. What is
// done to ours would be done to it.
func checkRoom(c *store.Conn, version int) error {
	have, err := c.Texts(`SELECT lower(name) FROM sqlite_schema`)
	if err != nil {
		return err
	}
	script := mailroom.Schema
	if version > 0 {
		script = ""
		for v := version; v < Version; v++ {
			script += migration(v) + "\n"
		}
		have = slices.DeleteFunc(have, func(name string) bool {
			return strings.Contains(script, "\nDROP INDEX "+name+";") ||
				strings.Contains(script, "\nALTER TABLE "+name+" RENAME TO ")
		})
	} else if slices.Contains(have, "agent_message") {
		columns, err := c.Texts(`SELECT lower(name) FROM pragma_table_info('agent_message')`)
		if err != nil {
			return err
		}
		for _, want := range documentColumns {
			if !slices.Contains(columns, want) {
				return orchestrator.Errorf(orchestrator.Unavailable,
					"the database has a table agent_message without the column %s", want).
					WithHint("The table belongs to another program. Specify another file with --db")
			}
		}
		have = slices.DeleteFunc(have, func(name string) bool { return name == "agent_message" })
		script += "\nCREATE TABLE " + adoptedTable
	}
	for _, made := range makes().FindAllStringSubmatch(script, -1) {
		if slices.Contains(have, made[1]) {
			return orchestrator.Errorf(orchestrator.Unavailable,
				"the database already has an object named %s, but Mailroom needs this name for an object of its own", made[1]).
				WithHint("The object belongs to another program. Rename the object, or specify another file with --db")
		}
	}
	return nil
}

// makes matches the name of what a statement of our scripts makes, or renames something to.
var makes = pattern.New(`(?m)^(?:CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW|TRIGGER)|ALTER TABLE \w+ RENAME TO) (\w+)`)

// adoptedTable is the name that the document's own agent_message has while it is copied.
const adoptedTable = "agent_message_adopted"

// makeTables turns version 0, a database without a version, into the present one: an empty file, or one in which a
// program that knows only the command document made its own agent_message. That table is adopted: its rows are copied
// in their order, and the next delivery finds and tidies them.
func makeTables(c *store.Conn) error {
	there, err := c.Number(`SELECT count(*) FROM sqlite_schema WHERE lower(name) = 'agent_message'`)
	if err != nil {
		return err
	}
	if there == 0 {
		if err := c.Script(mailroom.Schema); err != nil {
			return err
		}
		return store.Seed(c)
	}
	if err := c.Script(`ALTER TABLE agent_message RENAME TO ` + adoptedTable); err != nil {
		return err
	}
	if err := c.Script(mailroom.Schema); err != nil {
		return err
	}
	list := strings.Join(documentColumns, ", ")
	copied := strings.Replace(list, "payload", "CAST(payload AS TEXT)", 1)
	if err := c.Script(`INSERT INTO agent_message (` + list + `) SELECT ` + copied + ` FROM ` + adoptedTable +
		` ORDER BY rowid;
		DROP TABLE ` + adoptedTable); err != nil {
		return fmt.Errorf("cannot take over the table agent_message: %w", err)
	}
	return store.Seed(c)
}

// Migrate brings the database to Version in one transaction. Many processes may call it at once on a new file:
// the first to get the write lock does the work, the others find it done. made is told the id of a database that this
// made of an empty file, before anybody else can see it.
func (k Keeper) Migrate(made func(id string)) error {
	version, err := CheckVersion(k.Conn)
	if err != nil || version >= Version {
		return err
	}
	if err := k.Script("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := k.migrateLocked(made); err != nil {
		k.Script("ROLLBACK")
		return err
	}
	return k.Script("COMMIT")
}

func (k Keeper) migrateLocked(made func(id string)) error {
	version, err := CheckVersion(k.Conn)
	if err != nil {
		return err
	}
	if version >= Version {
		return nil
	}
	if err := checkRoom(k.Conn, version); err != nil {
		return err
	}
	things, err := k.Number(`SELECT count(*) FROM sqlite_schema`)
	if err != nil {
		return err
	}
	empty := things == 0
	if version == 0 {
		if err := makeTables(k.Conn); err != nil {
			return err
		}
		version = Version
	}
	if err := k.letIn(); err != nil { // a migration may change rows of a database that has moved
		return err
	}
	for ; version < Version; version++ {
		if err := k.Script(migration(version)); err != nil {
			return fmt.Errorf("cannot upgrade the tables to version %d: %w", version+1, err)
		}
		if version+1 == checkedNext {
			if err := k.checkRows(); err != nil {
				return err
			}
		}
	}
	if err := noteVersion(k.Conn); err != nil {
		return err
	}
	if empty && made != nil {
		id, _, err := k.Text(`SELECT value FROM settings WHERE key = '` + store.DatabaseID + `'`)
		if err != nil {
			return err
		}
		made(id)
	}
	if err := k.Script(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return err
	}
	return k.Shut() // also sets the version
}

// noteVersion stores which programs may use the tables from now on, and gives a database without an id one. The version
// of the configuration changes with that, since it is what every process looks at before it reads or writes: see
// Config.Load of package ledger.
func noteVersion(c *store.Conn) error {
	now := orchestrator.Stamp(time.Now())
	for key, value := range map[string]string{store.SchemaOldest: fmt.Sprintf("%d: %d", Version, oldestVersion),
		store.ConfigVersion: rand.Text()} {
		if _, err := c.Exec(store.StoreSetting, key, value, now); err != nil {
			return err
		}
	}
	_, err := c.Exec(`INSERT INTO settings (key, value, updated_at) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING`,
		store.DatabaseID, rand.Text(), now)
	return err
}

// CheckVersion returns the version of an open database; 0 is that it has no tables of ours. It refuses one that is
// another program's, one that is older than firstVersion, and a newer one unless that has noted that programs of this
// version may use it.
func CheckVersion(c *store.Conn) (int, error) {
	var version, application int
	err := c.Query(`SELECT user_version, application_id FROM pragma_user_version, pragma_application_id`,
		func(row store.Row) error {
			version, application = int(row.Int(0))&^movedVersion, int(row.Int(1))
			return nil
		})
	switch {
	case err != nil:
		return 0, err
	case application != 0 && application != applicationID, application == 0 && version != 0:
		return 0, &orchestrator.Error{Code: orchestrator.Unavailable, Err: ErrForeign,
			Message: fmt.Sprintf("the database has application_id %d and user_version %d", application, version),
			Hint:    "Specify another file with --db",
		}
	case version > 0 && version < firstVersion:
		return 0, orchestrator.Errorf(orchestrator.Unavailable,
			"the database has version %d of the tables, but this Mailroom can upgrade only version %d and later", version, firstVersion).
			WithHint("Build Mailroom from the commit %s, and run `mailroom init` with that build on this database. The version of Mailroom that you use now can then use the database", lastMigrating)
	case version <= Version:
		return version, nil
	}
	noted, _, _ := c.Text(`SELECT value FROM settings WHERE key = '` + store.SchemaOldest + `'`) // a damaged one says nothing
	return version, store.Outgrown(version, Version, noted)
}

// PrepareFile makes a new, empty file as the database needs it: mode 0600 in a folder with mode 0700, pages that can be
// given back to the file system, WAL. What exists is left alone, except that a database in another journal mode is
// switched to WAL.
func PrepareFile(c *store.Conn) error {
	pages, err := c.Number("PRAGMA page_count")
	if err != nil {
		return err
	}
	if pages == 0 {
		if err := c.Script("PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
			return err
		}
	}
	return c.Script("PRAGMA journal_mode = WAL")
}
