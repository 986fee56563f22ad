package reading

import (
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Part returns what reading adds to a restore: the waits of the time of the backup are over, and whoever had been shown
// messages then has nothing of them now.
func Part() *ledger.Part {
	return &ledger.Part{
		Name: "reading",
		Outdated: []store.Outdated{
			{End: `DELETE FROM waits WHERE ?1 <> ''`},
			{End: `UPDATE reading_lease SET until = ?1, pid = 0`},
		},
	}
}
