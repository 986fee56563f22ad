// Package mailroom carries schema.sql, the tables that everything else is about.
//
// It imports nothing and does nothing: an embed directive cannot reach upwards, so the file at the top of the
// repository needs a package at the top of the repository.
package mailroom

import _ "embed"

// Schema is the text of schema.sql: the statements that make a fresh database, in order. It holds no PRAGMA and no
// transaction of its own; whoever runs it sets the version and commits.
//
//go:embed schema.sql
var Schema string
