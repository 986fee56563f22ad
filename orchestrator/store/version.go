package store

import (
	"fmt"

	"mailroom/orchestrator"
)

// SchemaOldest is the key of the row of settings that determines which older programs may use tables that a newer
// program has changed. Its form is "VERSION: OLDEST". VERSION is the table version for which the row was written,
// and OLDEST is the oldest table version whose programs may use the tables.
const SchemaOldest = "schema.oldest"

// Outgrown returns an error if the version of the tables is newer than the known version of this program, unless
// noted, the value of SchemaOldest, permits this program. A missing value, or one that was written for another
// version, permits no older program.
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
