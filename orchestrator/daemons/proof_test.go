package daemons_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/store"
)

// trusting opens a database like a program of a user with a state folder, and creates or trusts it.
func trusting(t *testing.T, path, state string) *delivery.Engine {
	t.Helper()
	e := enginetest.OpenWith(t,
		ledger.Options{Path: path, Bell: store.NewLocalBell(), Trust: &ledger.Trust{Folder: state}})
	if _, err := e.Store.Create(); err != nil {
		t.Fatal(err)
	}
	if _, err := schedules.SetTrusted(t.Context(), e.Ledger, true); err != nil {
		t.Fatal(err)
	}
	return e
}

// A proof is accepted if the daemon has the secret of this user on this machine, serves this database, and was
// reached at its own address.
func TestProof(t *testing.T) {
	t.Parallel()
	const challenge, at = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "127.0.0.1:8080"
	path, state := enginetest.Place(t), filepath.Join(t.TempDir(), "trusted")
	ours := trusting(t, path, state)
	if daemons.Ours(t.Context(), ours.Ledger, challenge, at, "") {
		t.Error("before there is a secret, no proof is one")
	}
	proof, err := daemons.Prove(t.Context(), ours.Ledger, challenge, at)
	if err != nil {
		t.Fatal(err)
	}
	for what, right := range map[string]bool{
		"the answer":        daemons.Ours(t.Context(), trusting(t, path, state).Ledger, challenge, at, proof),
		"another challenge": !daemons.Ours(t.Context(), ours.Ledger, strings.ToLower(challenge), at, proof),
		"another address":   !daemons.Ours(t.Context(), ours.Ledger, challenge, "127.0.0.1:8081", proof),
		"a part of it":      !daemons.Ours(t.Context(), ours.Ledger, challenge, at, proof[:32]),
		"another database": !daemons.Ours(t.Context(), trusting(t, enginetest.Place(t), state).Ledger, challenge, at,
			proof),
		"a user of no state": !daemons.Ours(t.Context(),
			trusting(t, path, filepath.Join(t.TempDir(), "trusted")).Ledger, challenge, at, proof),
	} {
		if !right {
			t.Error(what)
		}
	}
	info, err := os.Stat(filepath.Join(state, "daemon.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret: %v %v", info, err)
	}
	if list, err := (&ledger.Trust{Folder: state}).List(); err != nil || len(list) != 2 {
		t.Errorf("trusted: %v %v", list, err)
	}
	if _, err := schedules.SetTrusted(t.Context(), ours.Ledger, false); err != nil {
		t.Fatal(err)
	}
	if daemons.Ours(t.Context(), ours.Ledger, challenge, at, proof) {
		t.Error("a database that is not trusted has a daemon of ours")
	}
	_, err = daemons.Prove(t.Context(), ours.Ledger, challenge, at)
	want.Code(t, err, orchestrator.Unavailable)
}

// An invalid challenge is refused. A file without a valid secret is named in the error and not used.
func TestNoProof(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "trusted")
	e := trusting(t, enginetest.Place(t), state)
	for _, challenge := range []string{"", "short", strings.Repeat("x", 129)} {
		_, err := daemons.Prove(t.Context(), e.Ledger, challenge, "127.0.0.1:1")
		want.Code(t, err, orchestrator.InvalidParams)
	}
	for _, content := range []string{"", "cut"} {
		if err := os.WriteFile(filepath.Join(state, "daemon.key"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := daemons.Prove(t.Context(), e.Ledger, strings.Repeat("x", 26), "127.0.0.1:1")
		want.Code(t, err, orchestrator.Unavailable)
		if !strings.Contains(err.Error(), "daemon.key does not contain a valid key") {
			t.Error(err)
		}
	}
}
