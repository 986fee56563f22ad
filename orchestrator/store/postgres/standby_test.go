package postgres_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/transport"
)

// engineAt opens an engine until the test ends.
func engineAt(t *testing.T, address string) *delivery.Engine {
	t.Helper()
	e, err := router.Open(t.Context(),
		ledger.Options{Path: address, Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func send(t *testing.T, e *delivery.Engine) error {
	_, err := messages.Send(t.Context(), e.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Payload: []byte(`"hello"`)})
	return err
}

// TestStandby queries a server that has a standby, and the standby itself.
func TestStandby(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	ann, admin := user(t, server, "ann")
	e := engineAt(t, ann)
	if _, err := e.Store.Create(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, _, err := agents.Add(t.Context(), e.Ledger, agents.Update{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(t, e); err != nil {
		t.Fatal(err)
	}
	sql := func(statement string) {
		t.Helper()
		if _, err := postgrestest.SQL(t.Context(), admin, statement); err != nil {
			t.Fatal(err)
		}
	}
	standby := postgrestest.Standby(t, server, "one")
	until(t, admin, `SELECT state || ' ' || sync_state FROM pg_stat_replication`, "streaming async")
	finds(t, ann, "acknowledged: ok on the disk of 1 node; it reaches 1 other standby later")
	sql(`ALTER SYSTEM SET synchronous_standby_names = 'one'`)
	sql(`SELECT pg_reload_conf()`)
	until(t, admin, `SELECT state || ' ' || sync_state FROM pg_stat_replication`, "streaming sync")
	finds(t, ann, "acknowledged: note requires: one")
	sql(`GRANT pg_read_all_stats TO ann`)
	finds(t, ann, "acknowledged: ok on the disks of 2 nodes")
	if err := send(t, e); err != nil {
		t.Errorf("a send that the standby confirms: %v", err)
	}

	there := strings.Replace(ann, url.QueryEscape(hostOf(t, server)), url.QueryEscape(hostOf(t, standby)), 1)
	until(t, there, `SELECT count(*) FROM mailroom.agent_message`, "2")
	finds(t, there, "server: note a standby, which is read-only")
	onlyReads(t, engineAt(t, there))

	postgrestest.Stop(t, standby)
	until(t, admin, `SELECT count(*) FROM pg_stat_replication`, "0")
	finds(t, ann, "acknowledged: problem too few are connected")
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("host")
}

// onlyReads checks that reads succeed on a standby, and that writes return the reason why they fail.
func onlyReads(t *testing.T, e *delivery.Engine) {
	t.Helper()
	state, err := overview.Status(t.Context(), e.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "messages that wait", state.Totals["pending"], 2)
	for _, finding := range overview.Doctor(t.Context(), e.Ledger, overview.DoctorOptions{}) {
		if finding.Level == "problem" || finding.Code == "acknowledged" || finding.Code == "events" {
			t.Errorf("doctor: %+v", finding)
		}
	}
	_, created := e.Store.Create()
	_, delivered := e.DeliverAll(t.Context(), delivery.Options{})
	for does, err := range map[string]error{"a send": send(t, e), "init": created, "a delivery": delivered} {
		if text := fmt.Sprint(err); orchestrator.CodeOf(err) != orchestrator.Unavailable ||
			!strings.Contains(text, "does not accept writes because it is a standby") || !strings.Contains(text, "list all servers") {
			t.Errorf("%s: %v", does, err)
		}
	}
}
