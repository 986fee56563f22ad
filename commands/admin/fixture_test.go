package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"mailroom/commands"
	"mailroom/commands/route"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// gate is a transport whose deliveries wait until they are let through. It signals when a delivery has begun.
type gate struct {
	begun   chan struct{}
	through chan struct{} // closed when the gate is open
	pass    func()        // called by each delivery that passes
}

func newGate(pass func()) *gate {
	return &gate{begun: make(chan struct{}, 16), through: make(chan struct{}), pass: pass}
}

func (*gate) Check(address string) (string, error) { return address, nil }
func (*gate) MaxBatch() int                        { return 1 }

func (g *gate) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	g.begun <- struct{}{}
	select {
	case <-g.through:
		g.pass()
		return make([]error, len(a.Messages))
	case <-ctx.Done():
		return []error{ctx.Err()}
	}
}

// fixture is a database in a real file. Tests run commands on it as a surface would.
type fixture struct {
	t         *testing.T
	path      string
	clock     *enginetest.Clock // nil for real time
	catalogue *commands.Catalogue
	router    *delivery.Engine
}

// newFixture returns a fixture. c is nil for real time, and more holds transports in addition to the real ones.
func newFixture(t *testing.T, c *enginetest.Clock, more map[string]orchestrator.Transport) *fixture {
	t.Helper()
	f := &fixture{
		t: t, path: enginetest.Place(t), clock: c,
		catalogue: commands.NewCatalogue(route.Definitions(), Definitions()),
	}
	f.router = f.open("first", more)
	if _, err := f.router.Store.Create(); err != nil {
		t.Fatal(err)
	}
	return f
}

// open opens the file as a process with this instance name. more holds transports in addition to the real ones.
func (f *fixture) open(instance string, more map[string]orchestrator.Transport) *delivery.Engine {
	f.t.Helper()
	transports := map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}}
	for scheme, t := range more {
		transports[scheme] = t
	}
	o := ledger.Options{Path: f.path, Instance: instance, Transports: transports, Bell: store.NewLocalBell()}
	if f.clock != nil {
		o.Now = f.clock.Now
	}
	return enginetest.OpenWith(f.t, o)
}

// try runs a command on a router as the administrator.
func (f *fixture) try(r *delivery.Engine, command, params string) (commands.Answer, error) {
	f.t.Helper()
	d, err := f.catalogue.Lookup(command)
	if err != nil {
		f.t.Fatal(err)
	}
	env := commands.Env{Engine: r, Caller: commands.Caller{Admin: true}, Log: slog.New(slog.DiscardHandler),
		Catalogue: f.catalogue}
	answer, err := d.Run(f.t.Context(), env, json.RawMessage(params))
	if err == nil {
		err = answer.Settle(f.t.Context(), env, true)
	}
	return answer, err
}

// ask runs a command that must succeed, and returns its result.
func ask[R any](f *fixture, command, params string) (result R) {
	f.t.Helper()
	answer, err := f.try(f.router, command, params)
	if err != nil {
		f.t.Fatalf("%s %s: %v", command, params, err)
	}
	result, ok := answer.Result.(R)
	if !ok {
		f.t.Fatalf("%s answers with a %T", command, answer.Result)
	}
	return result
}

// refused runs a command that must fail with a code.
func (f *fixture) refused(command, params string, code orchestrator.Code) *orchestrator.Error {
	f.t.Helper()
	_, err := f.try(f.router, command, params)
	if orchestrator.CodeOf(err) != code || err == nil {
		f.t.Fatalf("%s %s: %v; want %s", command, params, err, code)
	}
	return err.(*orchestrator.Error)
}

// send sends a message and returns its id. more holds further parameters, as JSON members after a comma.
func (f *fixture) send(sender, recipient, kind, more string) string {
	f.t.Helper()
	params := `{"sender":"` + sender + `","recipient":"` + recipient + `","message_type":"` + kind + `"` + more + `}`
	return ask[route.SendResult](f, "send", params).MessageID
}

// byHand changes the database as another program does.
func (f *fixture) byHand(statement string, args ...any) {
	f.t.Helper()
	if _, err := enginetest.Plain(f.t, f.path).Exec(statement, args...); err != nil {
		f.t.Fatalf("%s: %v", statement, err)
	}
}

// text returns the text form of a result, without colors.
func text(r commands.Texter) string {
	var b bytes.Buffer
	r.Text(&terminal.Text{Out: &b})
	return b.String()
}
