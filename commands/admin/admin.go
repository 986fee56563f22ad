// Package admin is the vocabulary for administrators. Its commands are grouped by subject: package roster manages
// agents and their groups, package inspection shows the current state and the history of messages, and package
// operations maintains the database.
package admin

import (
	"slices"

	"mailroom/commands"
	"mailroom/commands/admin/inspection"
	"mailroom/commands/admin/operations"
	"mailroom/commands/admin/roster"
)

// Definitions lists the commands in the order in which they are shown. doctor also runs the checks in looks.
func Definitions(looks ...operations.Look) []*commands.Definition {
	return slices.Concat(inspection.OfState(), roster.Definitions(), inspection.OfMessages(),
		operations.Definitions(looks...))
}
