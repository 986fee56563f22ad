// Package check queries a PostgreSQL server for problems that an operator should know.
package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
	"mailroom/orchestrator/store"
)

// A Check queries the server about one subject, outside of a transaction.
type Check struct {
	Name string
	Ask  func(c *store.Conn, report store.Report) error
}

const (
	// Oldest is the oldest supported version of the server, as server_version_num.
	Oldest = 140000
	// Encoding is the only encoding of a database that can represent every message.
	Encoding = "UTF8"
	// NameAll is the advice for a server that is a standby.
	NameAll = "In the address of the database, list all servers of the cluster, and set target_session_attrs=read-write"
)

// Server returns the checks of the server itself: its version, the settings of a connection, and what an
// acknowledged send means.
func Server(settings map[string]string) []Check {
	return []Check{
		{"server", checkServer},
		{"settings", func(c *store.Conn, report store.Report) error { return checkSettings(c, settings, report) }},
		{"acknowledged", checkAcknowledged},
	}
}

func checkServer(c *store.Conn, report store.Report) error {
	return c.Query(`SELECT current_setting('server_version'), current_setting('server_version_num')::bigint,
		pg_is_in_recovery(), current_user,
		current_setting('transaction_read_only'), current_setting('server_encoding')`, func(row store.Row) error {
		if row.Text(5) != Encoding {
			report("server", store.Problem, "the database has the encoding "+row.Text(5)+
				" and rejects messages with characters that this encoding does not have",
				"Create a database with CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0, and move to it with `mailroom migrate`")
		}
		says := "PostgreSQL " + row.Text(0) + ", as the user " + row.Text(3)
		switch {
		case row.Int(1) < Oldest:
			report("server", store.Problem, says+": Mailroom needs version 14 or later", "Upgrade the server")
		case row.Int(2) != 0:
			report("server", store.Note, says+": a standby, which is read-only", NameAll)
		case row.Text(4) == "on":
			report("server", store.Problem, says+": the server does not accept writes because default_transaction_read_only is on",
				"Set default_transaction_read_only to off for this user")
		default:
			report("server", store.Fine, says, "")
		}
		return nil
	})
}

// durable lists the settings of the server without which it can lose committed data.
var durable = []string{"fsync", "full_page_writes"}

// checkSettings compares the settings of the connection with the required ones.
func checkSettings(c *store.Conn, settings map[string]string, report store.Report) error {
	var off, other []string
	for _, name := range durable {
		value, _, err := c.Text(`SELECT current_setting(?1)`, name)
		if err != nil {
			return err
		}
		if value != "on" {
			off = append(off, name+" is "+value)
		}
	}
	if off != nil {
		report("settings", store.Problem,
			strings.Join(off, ", ")+": committed changes can be lost in a power failure",
			"Turn on fsync and full_page_writes in postgresql.conf")
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value, _, err := c.Text(`SELECT current_setting(?1)`, name)
		if err != nil {
			return err
		}
		if !sameSetting(value, settings[name]) {
			other = append(other, name+" is "+value+" but should be "+settings[name])
		}
	}
	switch {
	case other != nil:
		report("settings", store.Problem, "a program between Mailroom and the server changes settings: "+
			strings.Join(other, ", "),
			"To set them for this user in this database, run `mailroom init`. A connection pooler must then reconnect")
	case off == nil:
		report("settings", store.Fine, "the connections have the settings that Mailroom needs", "")
	}
	return nil
}

// sameSetting compares two values of a setting. The server may return a value in another unit of time.
func sameSetting(value, wanted string) bool {
	a, errA := time.ParseDuration(strings.Replace(value, "min", "m", 1))
	b, errB := time.ParseDuration(wanted)
	return strings.EqualFold(value, wanted) || errA == nil && errB == nil && a == b
}

// counted matches the number of standbys in synchronous_standby_names. Without a number, the server waits for one.
var counted = pattern.New(`(?i)^\s*(?:FIRST|ANY)?\s*(\d+)\s*\(`)

// checkAcknowledged reports what an acknowledged send means on this server.
func checkAcknowledged(c *store.Conn, report store.Report) error {
	var commit, names string
	var synchronous, all, hidden, standby int64
	err := c.Query(`SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
		count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')),
		count(pid), count(pid) FILTER (WHERE sync_state IS NULL), pg_is_in_recovery() FROM (SELECT 1) AS one
			LEFT JOIN pg_stat_replication ON true`, func(row store.Row) error {
		commit, names, synchronous, all, hidden, standby = row.Text(0), row.Text(1), row.Int(2), row.Int(3), row.Int(4),
			row.Int(5)
		return nil
	})
	if err != nil || standby != 0 { // a standby acknowledges no sends
		return err
	}
	wanted := int64(1)
	if found := counted().FindStringSubmatch(names); found != nil {
		wanted, _ = strconv.ParseInt(found[1], 10, 64)
	}
	others := ""
	if all > synchronous {
		others = "; it reaches " + orchestrator.Plural(int(all-synchronous), "other standby") +
			" later, unless this node is lost first"
	}
	switch {
	case commit == "off":
		report("acknowledged", store.Problem,
			"a send is acknowledged before it is on disk (synchronous_commit is off), so a crash of the server loses the last sends",
			"Set synchronous_commit = on in postgresql.conf, or run `mailroom init`, which sets it for the user of the database unless that user is a superuser")
	case names == "" || commit == "local":
		report("acknowledged", store.Fine, "an acknowledged send is on the disk of 1 node"+others, "")
	case hidden > 0:
		report("acknowledged", store.Note,
			"an acknowledged send is on this node and on the standbys that synchronous_standby_names requires: "+names,
			"To let this user see which standbys are connected, run GRANT pg_read_all_stats TO USER")
	case synchronous < wanted:
		report("acknowledged", store.Problem,
			fmt.Sprintf("the server waits for standbys (%s), but too few are connected, so sends are not acknowledged", names),
			"Start the standbys, or change synchronous_standby_names")
	default:
		report("acknowledged", store.Fine, fmt.Sprintf("an acknowledged send is on the disks of %d nodes%s", wanted+1, others),
			"")
	}
	return nil
}
