// Package admin is the vocabulary for those who run Mailroom. Its commands stand by subject: roster has the agents and
// their groups, inspection shows how things are and what became of messages, and operations looks after the database.
package admin

import (
	"slices"

	"mailroom/commands"
	"mailroom/commands/admin/inspection"
	"mailroom/commands/admin/operations"
	"mailroom/commands/admin/roster"
)

// Definitions lists the commands in the order in which they are shown. doctor also makes these checks.
func Definitions(looks ...operations.Look) []*commands.Definition {
	return slices.Concat(inspection.OfState(), roster.Definitions(), inspection.OfMessages(),
		operations.Definitions(looks...))
}
