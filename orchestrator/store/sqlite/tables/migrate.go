// Package tables creates the tables of a database file and migrates those of older versions to the current one. It
// also numbers their rows, exports and fills them when a database moves, and creates inbox views.
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

// firstVersion is the oldest version of the tables that can be migrated to the current one. lastMigrating is the
// last commit whose program can migrate older versions to firstVersion.
const (
	firstVersion  = 9
	lastMigrating = "cdb7c373da542a3167cedbf9ffe0e71e27990d87"
)

// Version is the version of schema.sql, stored in PRAGMA user_version. It is the version to which the last migration
// leads. A change of schema.sql that existing databases need must come with a migration.
var Version = func() int {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic(err)
	}
	return firstVersion + len(files)
}()

// migration returns the script that migrates a version of the tables to the next: the file migrations/N.sql, where N
// is the next version. The script does not depend on schema.sql, so later changes of schema.sql do not affect it.
// All scripts run in the one transaction that migrates the file. A migrated database must equal a new one;
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

// oldestVersion is the oldest version of the tables whose programs may continue to use and write a database of this
// version. A change that only adds what older programs do not need leaves oldestVersion as it is. Any other change
// raises it to Version. Every migration stores it in the row of settings named by store.SchemaOldest, since an older
// program does not have this constant. It is a variable for a test that builds the next version.
var oldestVersion = 12

// ErrForeign is the cause of an error about a file that Mailroom did not create.
var ErrForeign = errors.New("the file belongs to another program")

// Keeper manages the tables of an open database. It implements that part of a store.Driver.
type Keeper struct{ *store.Conn }

// Admit refuses tables that a newer program has made unusable for this one.
func (k Keeper) Admit() error {
	_, err := CheckVersion(k.Conn)
	return err
}

// documentColumns lists the columns of agent_message in the command document.
var documentColumns = []string{
	"message_id", "sender", "recipient", "message_type", "payload", "status", "created_at", "delivered_at",
	"retry_count", "max_retries", "error_message",
}

// MayMigrate refuses a database that must not be migrated: a database of a newer version of Mailroom, one in which
// needed names are taken, and one of another program unless making is set. All checks see the same snapshot, since
// others may be migrating the file.
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

// checkOurs refuses a file with tables of another program and without agent_message. A user who names such a file
// has most likely named the wrong one.
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

// checkRoom refuses a database of another program before anything in it is changed: one whose agent_message lacks a
// column of the command document, or one with a table, index or other object under a name that must be created. A
// migration would otherwise change that program's tables.
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

// makes matches the name that a statement of our scripts creates or renames something to.
var makes = pattern.New(`(?m)^(?:CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW|TRIGGER)|ALTER TABLE \w+ RENAME TO) (\w+)`)

// adoptedTable is the temporary name of an existing agent_message while its rows are copied.
const adoptedTable = "agent_message_adopted"

// makeTables creates the current tables in a database without a version: an empty file, or one in which a program
// that uses only the command document created its own agent_message. The rows of that table are copied in their
// order, and the next delivery finds and completes them.
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

// Migrate migrates the database to Version in one transaction. Many processes may call it at once on a new file: the
// first that gets the write lock does the work, and the others find it done. made is called with the id of a
// database that this call created in an empty file, before anybody else can see the database.
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

// noteVersion stores which programs may use the tables from now on, and gives an id to a database without one. It
// also changes the version of the configuration, which every process checks before it reads or writes: see
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

// CheckVersion returns the version of an open database, or 0 if it has no Mailroom tables. It refuses a database of
// another program and one that is older than firstVersion. It also refuses a newer database, unless a row of
// settings permits programs of this version to use it.
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
	// If the database is damaged, noted is empty and permits nothing.
	noted, _, _ := c.Text(`SELECT value FROM settings WHERE key = '` + store.SchemaOldest + `'`)
	return version, store.Outgrown(version, Version, noted)
}

// PrepareFile prepares a new, empty file: pages that can be returned to the file system, and WAL mode. It leaves an
// existing file unchanged, except that it switches another journal mode to WAL.
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
