// Package mailroom embeds schema.sql, which defines the tables that all other packages use.
//
// It imports nothing and has no code. An embed directive cannot refer to a parent folder, so a file at the top of the
// repository needs a package at the top of the repository.
package mailroom

import _ "embed"

// Schema is the text of schema.sql: the statements that create an empty database, in order. It contains no PRAGMA and
// no transaction of its own; the caller sets the version and commits.
//
//go:embed schema.sql
var Schema string
