//go:build client

package router

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// State reports no state for a file, because the client has no SQLite.
func State(string) (state string, known bool) { return "", false }

func openFile(o ledger.Options, _ *ledger.Ledger) (store.Store, error) {
	return nil, orchestrator.Errorf(orchestrator.InvalidParams,
		"mailroom-client cannot open a database file: %s", o.Path).
		WithHint("Run `mailroom-client join PLACE`, or name a database with --db: ssh://HOST/PATH, unix:/PATH.sock, https://HOST:PORT, or postgres://... For files, use the full program, mailroom")
}
