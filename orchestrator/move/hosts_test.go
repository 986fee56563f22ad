package move_test

import (
	"path/filepath"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/move"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/transport"
)

// TestHosts checks that agents and signal that need a machine belong to the machine that moves them to a server, and
// to none when they move back into a file.
func TestHosts(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	first, place, last := filepath.Join(t.TempDir(), "first.db"), postgrestest.Place(server),
		filepath.Join(t.TempDir(), "last.db")
	scene(t, first)
	if _, err := enginetest.Plain(t,
		first).Exec(`INSERT INTO agents (name, deliver, fallback, start_command, created_at, updated_at) VALUES
		('command', 'exec:make', '', '', '', ''), ('fallback', 'inbox', 'jsonl:/tmp/f', '', '', ''),
			('file', 'jsonl:/tmp/f', '', '', '', ''), ('folder', 'dir:/tmp', '', '', '', ''),
		('here', 'webhook:http://localhost:8080/', '', '', '', ''), ('starts', 'inbox', '', 'make', '', ''),
			('there', 'webhook:https://example.org/', '', '', '', '');
		INSERT INTO signal_devices (device_id, name, state, recipient, created_at)
			VALUES ('d-1', 'phone', 'active', '', '')`); err != nil {
		t.Fatal(err)
	}
	moves := func(from, to string, others ...string) *ledger.Ledger {
		t.Helper()
		at := func(path string) *ledger.Ledger {
			t.Helper()
			e, err := router.Open(t.Context(),
				ledger.Options{Path: path, Host: "ours", Transports: map[string]orchestrator.Transport{
					"jsonl": transport.JSONL{}, "dir": transport.Dir{}, "exec": transport.Exec{},
					"webhook": &transport.Webhook{},
				}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			return e.Ledger
		}
		old, now := at(from), at(to)
		m, err := move.Run(t.Context(), old, now, nil)
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "agents whose host changed", m.Hosts, 6)
		want.Rows(t, m.Others, others...)
		return now
	}
	hosts := func(l *ledger.Ledger) (list []string) {
		t.Helper()
		list, err := ledger.ReadValue(t.Context(), l, func(c *store.Conn) ([]string, error) {
			return c.Texts(`SELECT name FROM agents WHERE host = 'ours' ORDER BY name`)
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	signal := func(l *ledger.Ledger) string {
		t.Helper()
		setting, err := l.Setting(t.Context(), ledger.SignalHost)
		if err != nil {
			t.Fatal(err)
		}
		return setting.Value
	}
	there := moves(first, place)
	want.Rows(t, hosts(there), "command", "fallback", "file", "folder", "here", "starts")
	want.Equal(t, "the host of the phone's keys", signal(there), "ours")
	if _, err := postgrestest.SQL(t.Context(), place,
		`UPDATE agents SET host = 'theirs' WHERE name IN ('command', 'starts')`); err != nil {
		t.Fatal(err)
	}
	back := moves(place, last, "command of theirs", "starts of theirs")
	want.Rows(t, hosts(back))
	want.Equal(t, "the host of the phone's keys in a file", signal(back), "-")
}
