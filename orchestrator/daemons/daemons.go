// Package daemons records which processes serve a database.
package daemons

import (
	"context"
	"os"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
)

// Heartbeat is the interval at which a daemon should call Beat. A daemon without a beat for three times as long is
// gone.
const Heartbeat = 10 * time.Second

// Daemon is a running `mailroom serve`.
type Daemon struct {
	Instance  string `json:"instance"`
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	StartedAt string `json:"started_at"`
	SeenAt    string `json:"seen_at"`
	Listening string `json:"listening"` // address of its HTTP endpoint; "" is none
}

// Attend records that this process is a running daemon: once before it returns, and then every Heartbeat until ctx
// ends. A failure is logged once, until it changes or ends. Call wait after ctx has ended, and then Leave.
func Attend(ctx context.Context, l *ledger.Ledger, listening string) (wait func()) {
	var trouble orchestrator.Trouble
	beat := func() {
		if err := Beat(ctx, l, listening); ctx.Err() == nil && trouble.Changed(err) && err != nil {
			l.Log.Warn("cannot record this process as a daemon", "error", err)
		}
	}
	beat()
	ended := make(chan struct{})
	orchestrator.GoSafe("heartbeat", l.Log, func() {
		defer close(ended)
		ticker := time.NewTicker(Heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				beat()
			}
		}
	})
	return func() { <-ended }
}

// Beat records that this process is a running daemon. Attend calls it every Heartbeat.
func Beat(ctx context.Context, l *ledger.Ledger, listening string) error {
	return l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		if err := t.Run(`DELETE FROM daemons WHERE seen_at < ?`,
			orchestrator.Stamp(t.Clock.Add(-orchestrator.Day))); err != nil {
			return err
		}
		return t.Run(`
			INSERT INTO daemons (instance, host, pid, started_at, seen_at, listening) VALUES (?1, ?2, ?3, ?4, ?4, ?5)
			ON CONFLICT (instance) DO UPDATE SET seen_at = excluded.seen_at, listening = excluded.listening,
			    pid = excluded.pid, host = excluded.host`,
			l.Instance(), l.Host(), os.Getpid(), t.ClockText, listening)
	})
}

// Leave records that this process is no longer a daemon.
func Leave(ctx context.Context, l *ledger.Ledger) error {
	return l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		return t.Run(`DELETE FROM daemons WHERE instance = ?`, l.Instance())
	})
}

// List returns the running daemons: those seen recently and not known to be dead on this machine.
func List(ctx context.Context, l *ledger.Ledger) ([]Daemon, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]Daemon, error) { return ListIn(c, l) })
}

// ListIn returns the running daemons, like List, on a given connection.
func ListIn(c *store.Conn, l *ledger.Ledger) ([]Daemon, error) {
	list, err := seen(c, l)
	return slices.DeleteFunc(list, func(d Daemon) bool { return isMissing(l, d) }), err
}

// Missing returns the daemons that were seen recently under the name of this host but whose processes are not here:
// they were killed, or another machine has the same name.
func Missing(c *store.Conn, l *ledger.Ledger) ([]Daemon, error) {
	list, err := seen(c, l)
	return slices.DeleteFunc(list, func(d Daemon) bool { return !isMissing(l, d) }), err
}

func isMissing(l *ledger.Ledger, d Daemon) bool {
	id := process.None()
	id.PID = d.PID
	return d.Host == l.Host() && !id.Here()
}

func seen(c *store.Conn, l *ledger.Ledger) ([]Daemon, error) {
	return store.List(c, func(row store.Row) Daemon {
		return Daemon{row.Text(0), row.Text(1), int(row.Int(2)), row.Text(3), row.Text(4), row.Text(5)}
	}, `SELECT instance, host, pid, started_at, seen_at, listening FROM daemons WHERE seen_at > ? ORDER BY started_at`,
		orchestrator.Stamp(l.Now().Add(-3*Heartbeat)))
}
