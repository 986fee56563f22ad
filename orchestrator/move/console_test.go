package move_test

import (
	"path/filepath"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/move"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestConsoleDoesNotMove checks that sessions and codes of the console do not move with the database, and that tokens
// of agents do.
func TestConsoleDoesNotMove(t *testing.T) {
	t.Parallel()
	file, place := filepath.Join(t.TempDir(), "first.db"), postgrestest.Place(postgrestest.Start(t))
	scene(t, file)
	from, to := mustOpen(t, file), mustOpen(t, place)
	agent, _, err := agents.IssueToken(t.Context(), from.Ledger, "a", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes [2]string
	for i := range codes {
		if codes[i], err = agents.IssueCode(t.Context(), from.Ledger); err != nil {
			t.Fatal(err)
		}
	}
	session, _, err := agents.OpenSession(t.Context(), from.Ledger, codes[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := move.Run(t.Context(), from.Ledger, to.Ledger, nil); err != nil {
		t.Fatal(err)
	}
	_, err = agents.Authenticate(t.Context(), to.Ledger, session)
	want.Code(t, err, orchestrator.Unauthenticated)
	_, _, err = agents.OpenSession(t.Context(), to.Ledger, codes[1])
	want.Code(t, err, orchestrator.Unauthenticated)
	if _, err := agents.Authenticate(t.Context(), to.Ledger, agent); err != nil {
		t.Error(err)
	}
}
