// Package router opens an engine: it assembles the engine's parts, and selects the store for an address.
package router

import (
	"context"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/teams"
	"mailroom/orchestrator/threads"
	"mailroom/orchestrator/traffic"
)

// Open prepares an Engine for the database at a path: a file, or the address of a PostgreSQL server. It reads the
// disk only as far as needed to refuse a path that cannot be a database. The first command that needs the database
// opens it. A database file is created by the first command that writes, or by Create.
func Open(_ context.Context, o ledger.Options) (*delivery.Engine, error) {
	if o.Host != "" && !ledger.IsHostName(o.Host) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams,
			"%q is not a valid host name: use letters, digits, dots, - and _", o.Host)
	}
	l := ledger.New(o, newParts())
	s, err := openStore(o, l)
	if err != nil {
		return nil, err
	}
	l.UseStore(s)
	e := delivery.NewEngine(l)
	e.OpenOther = func(ctx context.Context, path string) (*delivery.Engine, error) {
		return Open(ctx, ledger.Options{
			Path: path, State: o.State, Instance: l.Instance(), Host: l.Host(), Now: l.Now, Transports: l.Transports,
			User: l.User, Log: l.Log, BusyTimeout: l.Busy,
		})
	}
	return e, nil
}

func openStore(o ledger.Options, l *ledger.Ledger) (store.Store, error) {
	if postgres.IsAddress(o.Path) {
		return postgres.Open(postgres.Options{
			DSN: o.Path, State: o.State, Log: l.Log, Bell: o.Bell, BusyTimeout: l.Busy, Pulse: o.Pulse,
			Made: l.TrustNew, Begin: l.Begin, End: l.End,
		})
	}
	if lower := strings.ToLower(o.Path); strings.Contains(lower, "://") || strings.HasPrefix(lower, "postgres:") ||
		strings.Contains(lower, "password=") {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams,
			"the database must be a file or the address of a server").
			WithHint("Give the path of a file, or the address of a server in the form postgres://USER@HOST/DATABASE")
	}
	return openFile(o, l)
}

// newParts lists the parts of the engine of one database, in the order in which the engine calls them. Teams come
// before threads, because an answer to a team's request joins no thread.
func newParts() []*ledger.Part {
	return []*ledger.Part{teams.Part(), threads.Part(), agents.Part(), sessions.Part(), questions.Part(),
		reading.Part(), hosts.Part(), traffic.Part()}
}
