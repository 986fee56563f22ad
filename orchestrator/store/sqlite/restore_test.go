package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/removal"
)

// A restore revives no token: neither one that was revoked since, nor one that no longer exists, nor one of a
// removed agent. Tokens that are valid in both stay valid, even in a process that had the file open. No wait remains
// afterwards.
func TestRestoreRevivesNothing(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	secrets := map[string]string{}
	issue := func(agent string, lifetime time.Duration) {
		t.Helper()
		secret, _, err := agents.IssueToken(t.Context(), f.Ledger, agent, false, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		secrets[agent] = secret
	}
	for agent, lifetime := range map[string]time.Duration{"a": 0, "b": 0, "c": 0, "d": 0, "soon": time.Minute,
		"before": 0} {
		issue(agent, lifetime)
	}
	if _, err := agents.RevokeTokens(t.Context(), f.Ledger, "before"); err != nil {
		t.Fatal(err)
	}
	f.DeadWait("a", "b", f.Clock.Now().Add(time.Hour))
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := f.BackupTo(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	if _, err := agents.RevokeTokens(t.Context(), f.Ledger, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	f.SQL(`DELETE FROM tokens WHERE agent = 'c'`)
	issue("later", 0)
	f.Clock.Advance(time.Minute)

	other := f.Open()
	if _, err := agents.Authenticate(t.Context(), other.Ledger, secrets["d"]); err != nil {
		t.Fatal(err)
	}
	done, err := f.Restore(t.Context(), backup, false)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "revoked", done.Ended["tokens"], 3)
	for _, r := range []*delivery.Engine{f.Engine, other} {
		for agent, secret := range secrets {
			if _, err := agents.Authenticate(t.Context(), r.Ledger, secret); (err == nil) != (agent == "d") {
				t.Errorf("the token of %s: %v", agent, err)
			}
		}
	}
	want.Equal(t, "waits", f.Count("waits"), "0")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(f.Path), ".mailroom-restore-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if again, err := f.Restore(t.Context(), backup, false); err != nil || again.Ended["tokens"] != 3 {
		t.Errorf("once more: %+v, %v", again, err)
	}
}

// In a new file no token of the backup is valid, since it is unknown which were revoked since.
func TestRestoreIntoANewFile(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	secret, _, err := agents.IssueToken(t.Context(), f.Ledger, "a", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := f.BackupTo(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	r := enginetest.Open(t, filepath.Join(t.TempDir(), "new.db"))
	if done, err := r.Restore(t.Context(), backup, false); err != nil || done.Ended["tokens"] != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	_, err = agents.Authenticate(t.Context(), r.Ledger, secret)
	want.Code(t, err, orchestrator.Unauthenticated)
	if _, err := agents.Get(t.Context(), r.Ledger, "a"); err != nil {
		t.Error(err)
	}
}

// A backup of an older version is migrated before anybody sees it; one that cannot be migrated changes nothing.
func TestRestoreOfOlderVersion(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "b")
	old := enginetest.OldVersion(t)
	if done, err := f.Restore(t.Context(), old, false); err != nil || done.Messages != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	want.Rows(t, f.Rows(`SELECT name FROM agents`), "a")
	bad := enginetest.OldVersion(t)
	if _, err := enginetest.Plain(t, bad).Exec(`CREATE TABLE agents_11 (x)`); err != nil {
		t.Fatal(err)
	}
	_, err := f.Restore(t.Context(), bad, true)
	want.Code(t, err, orchestrator.Unavailable)
	want.Rows(t, f.Rows(`SELECT name FROM agents`), "a")
}
