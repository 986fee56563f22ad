//go:build !client && !windows

package router

import (
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite"
)

// State returns a text that changes with every commit to the database in a file; see sqlite.State.
func State(path string) (state string, known bool) { return sqlite.State(path) }

func openFile(o ledger.Options, l *ledger.Ledger) (store.Store, error) {
	return sqlite.Open(sqlite.Options{
		Path: o.Path, Now: l.Now, Log: l.Log, Bell: o.Bell, BusyTimeout: l.Busy, Made: l.TrustNew, Begin: l.Begin,
		End: l.End,
	})
}
