package store

import (
	"fmt"

	"mailroom/orchestrator"
)

// SchemaOldest is the row of settings that says which programs may go on using tables that a newer one has changed:
// "VERSION: OLDEST", of which the first is the version for which it was written, and the second the oldest whose
// programs may.
const SchemaOldest = "schema.oldest"

// Outgrown refuses tables of a version that is newer than the one that a program knows, unless noted, the row
// SchemaOldest, says that it may use them. Where there is no such row, or it was written for another version, nobody
// knows.
func Outgrown(version, known int, noted string) error {
	var of, oldest int
	if n, _ := fmt.Sscanf(noted, "%d: %d", &of, &oldest); version <= known || n == 2 && of == version &&
		oldest <= known {
		return nil
	}
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: ErrOutdated,
		Message: fmt.Sprintf("the database has version %d of the tables, but this program supports versions up to %d", version, known),
		Hint:    "Restart this program (the MCP server, the daemon, or the watch) with the version of Mailroom that changed the tables, or with a later version. Nothing was lost",
	}
}
