package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/check"
)

// settings are the settings that each connection needs. The first ones make the server use the indexes for which the
// statements were written, whatever its statistics are: these may be from a time when the queue was empty, or full.
// No statement times out, since a cancelled COMMIT may succeed all the same; but a statement does not wait for ever
// for a table that somebody has locked. Each connection requests the settings when it begins. init also sets them
// for its user in this database, for poolers that accept no settings from their clients.
var settings = map[string]string{
	"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	"plan_cache_mode": "force_generic_plan", "jit": "off", "default_transaction_isolation": "read committed",
	"timezone":                            "UTC",
	"idle_in_transaction_session_timeout": "10s", "statement_timeout": "0", "lock_timeout": "10s",
}

// credentials lists the tables that audit queries cannot read.
const credentials = "tokens, agent_secrets, signal_subscriptions, signal_keys, signal_pairings"

// suits refuses a server that is too old, or that is not PostgreSQL but only speaks its protocol.
func suits(s *Store, c *store.Conn) error {
	var version string
	number := int64(0)
	err := c.Query(`SELECT current_setting('server_version'), current_setting('server_version_num')::bigint`,
		func(row store.Row) error {
			version, number = row.Text(0), row.Int(1)
			return nil
		})
	if err == nil && number < check.Oldest {
		return orchestrator.Errorf(orchestrator.Unavailable,
			"the server of %s is PostgreSQL %s, but Mailroom needs version 14 or later", s.path, version).
			WithHint("Upgrade the server, or use another one")
	}
	if err == nil {
		err = c.Run(`SELECT pg_current_xact_id_if_assigned() IS NULL, pg_try_advisory_xact_lock_shared(?1, 0), objsubid,
			waitstart FROM pg_locks LIMIT 1`, int(settingUp))
	}
	if code := codeOf(err); code == undefinedFunction || code == undefinedColumn || code == undefinedTable ||
		code == undefinedObject || code == notSupported {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Err: err, Message: "the server of " + s.path +
			" is not PostgreSQL: it lacks features that Mailroom needs when several programs write",
			Hint: "Use PostgreSQL 14 or later"}
	}
	return err
}

// encodes refuses to create tables in a database of another encoding, which cannot represent all characters.
func encodes(s *Store, c *store.Conn) error {
	has, _, err := c.Text(`SELECT current_setting('server_encoding')`)
	if err != nil || has == check.Encoding {
		return err
	}
	return orchestrator.Errorf(orchestrator.Unavailable,
		"the encoding of the database %s must be UTF8, but is %s, which cannot represent all characters of messages", s.path, has).
		WithHint("Create the database with UTF8: CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0")
}

// makeSchema creates the schema of the tables, unless somebody has already created it for this user.
func makeSchema(s *Store, c *store.Conn) error {
	n, err := c.Number(`SELECT count(*) FROM pg_namespace WHERE nspname = ?1`, s.schema)
	if err != nil || n > 0 {
		return err
	}
	err = c.Script(`CREATE SCHEMA "` + s.schema + `"`)
	if codeOf(err) == noRight {
		user, database := s.config.User, s.config.Database
		return &orchestrator.Error{Code: orchestrator.PermissionDenied, Err: err,
			Message: "the user " + user + " has no right to create the schema " + s.schema + " in the database " + database,
			Hint: "As the owner of the database, run CREATE SCHEMA \"" + s.schema + `" AUTHORIZATION "` + user +
				`" or GRANT CREATE ON DATABASE "` + database + `" TO "` + user + `". Then run ` + "`mailroom init` again"}
	}
	return err
}

// setRole stores the settings for this user in this database, unless they are already stored. It changes nothing for
// a superuser, who uses the database for other purposes, too.
func setRole(s *Store, ctx context.Context, raw *conn) error {
	c := &store.Conn{Driver: raw}
	if super, err := c.Number(`SELECT rolsuper FROM pg_roles WHERE rolname = current_user`); err != nil || super != 0 {
		return err
	}
	known, err := c.Texts(`SELECT unnest(setconfig) FROM pg_db_role_setting
		WHERE setrole = (SELECT oid FROM pg_roles WHERE rolname = current_user)
		AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		return err
	}
	wanted := maps.Clone(settings)
	if s.schema == "mailroom" { // other schemas are named in the addresses
		wanted["search_path"] = s.schema
	}
	if off, err := c.Number(`SELECT current_setting('synchronous_commit') = 'off'`); err != nil {
		return err
	} else if off != 0 {
		wanted["synchronous_commit"] = "on"
	}
	maps.DeleteFunc(wanted, func(name, value string) bool {
		return slices.Contains(known, name+"="+value) || name == "timezone" && slices.Contains(known, "TimeZone="+value)
	})
	if len(wanted) == 0 {
		return nil
	}
	if err := raw.Do(ctx,
		fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(%d, 0)", settingUp)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		statement, _, err := c.Text(`SELECT format('ALTER ROLE CURRENT_USER IN DATABASE %I SET %I = %L',
			current_database(), ?1::text, ?2::text)`, name, wanted[name])
		if err != nil {
			return err
		}
		if err := c.Script(statement); err != nil {
			return err
		}
	}
	return raw.Do(ctx, "COMMIT")
}
