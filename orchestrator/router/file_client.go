//go:build client

package router

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// State knows nothing of a file: the client has no SQLite.
func State(string) (state string, known bool) { return "", false }

func openFile(o ledger.Options, _ *ledger.Ledger) (store.Store, error) {
	return nil, orchestrator.Errorf(orchestrator.InvalidParams,
		"this program is the client, which has no SQLite and cannot open the file %s", o.Path).
		WithHint("Give a place on another machine with `--db ssh://HOST/PATH` or on a PostgreSQL server with `--db postgres://...`, or use the full `mailroom` program")
}
