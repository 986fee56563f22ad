package reading

import (
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Part returns the part of reading for a restore: the waits of the backup have ended, and readers no longer have the
// messages that were shown to them at the time of the backup.
func Part() *ledger.Part {
	return &ledger.Part{
		Name: "reading",
		Outdated: []store.Outdated{
			{End: `DELETE FROM waits WHERE ?1 <> ''`},
			{End: `UPDATE reading_lease SET until = ?1, pid = 0`},
		},
	}
}
