package daemons_test

import (
	"os/exec"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// A daemon whose process has ended is no longer listed on the host where it ran, under whatever name. Other hosts
// may still list it.
func TestKilledDaemon(t *testing.T) {
	t.Parallel()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	path := enginetest.Place(t)
	for name, there := range map[string]int{"alpha": 0, "beta": 1} {
		e := enginetest.OpenWith(t, ledger.Options{Path: path, Host: name, Bell: store.NewLocalBell()})
		if _, err := e.Store.Create(); err != nil {
			t.Fatal(err)
		}
		now := orchestrator.Stamp(e.Now())
		if _, err := enginetest.Plain(t,
			path).Exec(`INSERT INTO daemons (instance, host, pid, started_at, seen_at, listening)
				VALUES ('d', 'alpha', ?, ?, ?, '') ON CONFLICT DO NOTHING`,
			ended.Process.Pid, now, now); err != nil {
			t.Fatal(err)
		}
		list, err := daemons.List(t.Context(), e.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "daemons that "+name+" sees", len(list), there)
		missing, err := ledger.ReadValue(t.Context(), e.Ledger, func(c *store.Conn) ([]daemons.Daemon,
			error) {
			return daemons.Missing(c, e.Ledger)
		})
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "daemons that "+name+" misses", len(missing), 1-there)
	}
}
