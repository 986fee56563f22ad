package reading

import (
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Part returns the part of the ledger that package reading adds. After a restore or a move of the database, all waits
// are deleted, and every reading lease ends, because its holder no longer has the messages.
func Part() *ledger.Part {
	return &ledger.Part{
		Name: "reading",
		Outdated: []store.Outdated{
			{End: `DELETE FROM waits WHERE ?1 <> ''`},
			{End: `UPDATE reading_lease SET until = ?1, pid = 0`},
		},
	}
}
