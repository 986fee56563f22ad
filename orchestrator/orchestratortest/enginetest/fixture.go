// Package enginetest gives tests a complete engine on a real file, with a clock and a transport that the test
// controls. The packages below orchestrator/router use it in external tests.
package enginetest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	_ "mailroom/orchestrator/orchestratortest/statements" // collects the statements
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/transport"
	"mailroom/tracing"
)

// Fixture is an engine with the objects through which a test controls it. Its methods end the test if they fail.
type Fixture struct {
	*delivery.Engine
	T     *testing.T
	Clock *Clock            // of the engine
	Wire  *Scripted         // handles the scheme "wire", and pushes to devices
	User  *Person           // delivers messages to the user
	Path  string            // of the database
	Bell  orchestrator.Bell // set by NewBubble
	Trust *ledger.Trust     // for engines that Open opens from now on
}

// New creates a database with agents of these names and the transport inbox.
func New(t *testing.T, names ...string) *Fixture {
	t.Helper()
	f := &Fixture{T: t, Clock: NewClock(), Wire: &Scripted{}, User: &Person{Scripted: &Scripted{}}, Path: Place(t)}
	f.Engine = f.Open()
	f.AddAll(names...)
	return f
}

// Open opens the database again, as another process would, until the test ends.
func (f *Fixture) Open() *delivery.Engine {
	f.T.Helper()
	return f.open(ledger.Options{
		Bell: store.NewLocalBell(), Trust: f.Trust, User: f.User.of,
		Transports: map[string]orchestrator.Transport{
			"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}, "exec": transport.Exec{},
			"webhook": new(transport.Webhook),
			"wire":    f.Wire, "push": f.Wire, "ntfy": f.Wire, "gated": gated{f.Wire}, "hung": hung{transport.JSONL{}},
		},
	})
}

// OpenAll opens the database n times, as n processes with a common bell would.
func (f *Fixture) OpenAll(n int) (engines []*delivery.Engine) {
	f.T.Helper()
	bell := store.NewLocalBell()
	for i := range n {
		engines = append(engines, f.open(ledger.Options{
			Bell: bell, Instance: fmt.Sprint("process-", i),
			Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{},
				"wire": f.Wire},
		}))
	}
	return engines
}

// open opens the database with the fixture's clock, until the test ends.
func (f *Fixture) open(o ledger.Options) *delivery.Engine {
	f.T.Helper()
	o.Path, o.Now = f.Path, f.Clock.Now
	return OpenWith(f.T, o)
}

// OpenWith opens a database until the test ends. If o has no log, nothing is logged.
func OpenWith(t testing.TB, o ledger.Options) *delivery.Engine {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.CountEvery = 3
	e := open(t, o)
	t.Cleanup(func() {
		if _, byHand := byHand.Load(o.Path); !byHand {
			if wrong, err := ledger.ReadValue(context.Background(), e.Ledger, ledger.Miscounted); err == nil &&
				len(wrong) > 0 {
				t.Errorf("miscounted: %v", wrong)
			}
		}
		if err := e.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return e
}

// NewBubble creates a database that uses the clock of a synctest bubble. The test closes the database within the
// bubble.
func NewBubble(t *testing.T) *Fixture {
	t.Helper()
	OfAFile(t, "a server's clock is not that of a bubble")
	f := &Fixture{T: t, Wire: &Scripted{}, Path: Place(t), Bell: store.NewLocalBell()}
	f.Engine = open(t, ledger.Options{
		Path: f.Path, Bell: f.Bell, CountEvery: 3, Log: slog.New(slog.DiscardHandler),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "wire": f.Wire},
	})
	return f
}

// Open opens a database with the transport inbox and the system's clock, until the test ends.
func Open(t *testing.T, path string) *delivery.Engine {
	t.Helper()
	e := open(t, ledger.Options{
		Path: path, Bell: store.NewLocalBell(),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
	})
	t.Cleanup(func() { e.Close() })
	return e
}

// open opens a database. A database on a server is created first, because the engine does not create one there.
func open(t testing.TB, o ledger.Options) *delivery.Engine {
	t.Helper()
	e, err := router.Open(t.Context(), Placed(o))
	if err == nil && postgres.IsAddress(o.Path) {
		_, err = e.Store.Create()
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// OpenInHelper opens a database for a helper process. It returns an error, because there is no test to end.
func OpenInHelper(path string) (*delivery.Engine, error) {
	return router.Open(context.Background(),
		Placed(ledger.Options{Path: path, Log: slog.New(slog.DiscardHandler), Bell: store.NewLocalBell()}))
}

// Stamp returns the clock's time in the format of the database.
func (f *Fixture) Stamp() string { return f.Clock.Now().Format(tracing.Layout) }

// Set changes a setting.
func (f *Fixture) Set(key, value string) {
	f.T.Helper()
	if _, err := f.SetSetting(f.T.Context(), key, value); err != nil {
		f.T.Fatal(err)
	}
}

// Rows runs a query and returns every row as text, columns separated by spaces.
func (f *Fixture) Rows(query string, params ...any) (rows []string) {
	f.T.Helper()
	keep := func(values []any) { rows = append(rows, strings.TrimSuffix(fmt.Sprintln(values...), "\n")) }
	if f.OnServer() { // the product's own Query would connect each time
		if err := f.LookUnchecked(f.T.Context(), func(c *store.Conn) error {
			rows = nil
			return c.Query(query, func(row store.Row) error {
				values := make([]any, len(row))
				for i, v := range row {
					values[i] = v
				}
				keep(values)
				return nil
			}, params...)
		}); err != nil {
			f.T.Fatal(err)
		}
		return rows
	}
	table, err := f.Query(f.T.Context(), query, store.Bound{Rows: 1_000_000}, params...)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, row := range table.Rows.Values() {
		keep(row)
	}
	return rows
}

// Deadline returns a context whose deadline affects only a test that hangs.
func Deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
