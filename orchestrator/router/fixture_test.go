package router_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
	"mailroom/tracing"
)

// clock is a clock that only moves when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// scripted is a transport whose deliveries go as the test says. It keeps what arrived.
type scripted struct {
	mu      sync.Mutex
	deliver func(ctx context.Context, a orchestrator.Attempt) []error // nil: all arrive
	arrived []orchestrator.Message
	batch   int
	leaving func() // what whoever has a slot does before it is given back
}

func (s *scripted) Check(address string) (string, error) {
	if address == "" {
		return "", errors.New("an address is missing")
	}
	return address, nil
}

func (s *scripted) MaxBatch() int { return max(1, s.batch) }

func (s *scripted) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	s.mu.Lock()
	deliver := s.deliver
	s.mu.Unlock()
	errs := make([]error, len(a.Messages))
	if deliver != nil {
		errs = deliver(ctx, a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range a.Messages {
		if errs[i] == nil {
			s.arrived = append(s.arrived, m)
		}
	}
	return errs
}

func (s *scripted) set(deliver func(ctx context.Context, a orchestrator.Attempt) []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver = deliver
}

func (s *scripted) ids() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.arrived {
		ids = append(ids, m.ID)
	}
	return ids
}

// failing is a delivery that fails for everybody.
func failing(reason string) func(context.Context, orchestrator.Attempt) []error {
	return func(_ context.Context, a orchestrator.Attempt) []error {
		errs := make([]error, len(a.Messages))
		for i := range errs {
			errs[i] = errors.New(reason)
		}
		return errs
	}
}

// fixture is a router on a real file, with a clock and a scripted transport of the test's own.
type fixture struct {
	*delivery.Engine
	t     *testing.T
	clock *clock
	wire  *scripted // scheme "wire", and those of devices
	user  *person   // scheme "person"
	path  string
	bell  orchestrator.Bell // of a bubble
	trust *ledger.Trust     // of what is opened from now on
}

func newFixture(t *testing.T, names ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: newClock(), wire: &scripted{}, user: &person{scripted: &scripted{}}, path: filepath.Join(t.TempDir(), "mailroom.db")}
	f.Engine = f.open()
	for _, name := range names {
		f.add(agents.Update{Name: name})
	}
	return f
}

// open opens the file once more, as another process would.
func (f *fixture) open() *delivery.Engine {
	f.t.Helper()
	r, err := router.Open(f.t.Context(), ledger.Options{
		Path: f.path, Now: f.clock.now, Log: slog.New(slog.DiscardHandler), Bell: store.NewLocalBell(), Trust: f.trust,
		Transports: map[string]orchestrator.Transport{
			"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}, "wire": f.wire, "push": f.wire, "ntfy": f.wire, "gated": gated{f.wire}, "hung": hung{transport.JSONL{}}, "exec": transport.Exec{}, "webhook": new(transport.Webhook),
		},
		User: f.user.of,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			f.t.Errorf("closing: %v", err)
		}
	})
	return r
}

// bubbleFixture opens a database within a bubble of synctest, whose clock it goes by. The test closes it there.
func bubbleFixture(t *testing.T) *fixture {
	t.Helper()
	bell := store.NewLocalBell()
	r, err := router.Open(t.Context(), ledger.Options{
		Path: filepath.Join(t.TempDir(), "mailroom.db"), Bell: bell, Log: slog.New(slog.DiscardHandler),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "wire": &scripted{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Engine: r, t: t, path: r.Path(), bell: bell}
}

func (f *fixture) add(u agents.Update) ledger.Agent {
	f.t.Helper()
	a, _, err := agents.Add(f.t.Context(), f.Ledger, u)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// addWired adds an agent behind the scripted transport.
func (f *fixture) addWired(name string) {
	f.t.Helper()
	target := "wire:" + name
	f.add(agents.Update{Name: name, Deliver: &target})
}

func (f *fixture) send(sender, recipient string, change ...func(*orchestrator.Draft)) string {
	f.t.Helper()
	d := orchestrator.Draft{Sender: sender, Recipient: recipient, Type: "note", Payload: []byte(`{"n":1}`)}
	for _, c := range change {
		c(&d)
	}
	sent, err := messages.Send(f.t.Context(), f.Ledger, d)
	if err != nil {
		f.t.Fatal(err)
	}
	return sent.MessageID
}

func (f *fixture) deliver() delivery.Delivery {
	f.t.Helper()
	d, err := f.DeliverAll(f.t.Context(), delivery.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// nextDue returns when the next run is planned, no earlier than now; "" if nothing is planned.
func (f *fixture) nextDue() string {
	f.t.Helper()
	state, err := overview.Status(f.t.Context(), f.Ledger)
	if err != nil {
		f.t.Fatal(err)
	}
	return state.NextDueAt
}

// stamp is the clock's time, as the database has it.
func (f *fixture) stamp() string { return f.clock.now().Format(tracing.Layout) }

// says sends a message in which an agent says what it does in a session.
func (f *fixture) says(agent, to, session string, status orchestrator.PresenceStatus) {
	f.t.Helper()
	f.send(agent, to, func(d *orchestrator.Draft) { d.SessionID, d.Presence = session, status })
}

func (f *fixture) message(id string) orchestrator.Message {
	f.t.Helper()
	ms, err := messages.Find(f.t.Context(), f.Ledger, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return ms[0]
}

// setting changes a setting.
func (f *fixture) setting(key, value string) {
	f.t.Helper()
	if _, err := f.SetSetting(f.t.Context(), key, value); err != nil {
		f.t.Fatal(err)
	}
}

// rows runs a query and returns every row as text, columns separated by spaces.
func (f *fixture) rows(query string, params ...any) (rows []string) {
	f.t.Helper()
	table, err := f.Query(f.t.Context(), query, 1_000_000, params...)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, row := range table.Rows {
		rows = append(rows, fmt.Sprintln(row.Values...))
		rows[len(rows)-1] = rows[len(rows)-1][:len(rows[len(rows)-1])-1]
	}
	return rows
}

// sql changes the file the way another program does: through a connection that knows nothing of the engine.
func (f *fixture) sql(statement string, args ...any) {
	f.t.Helper()
	if _, err := openPlain(f.t, f.path).Exec(statement, args...); err != nil {
		f.t.Fatalf("%s: %v", statement, err)
	}
}

// wantCode fails unless err carries the code.
func wantCode(t *testing.T, err error, code orchestrator.Code) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %s", code)
	}
	if got := orchestrator.CodeOf(err); got != code {
		t.Fatalf("code %s (%v); want %s", got, err, code)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v; want %v", what, got, want)
	}
}

func wantRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d rows %q; want %q", len(got), got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("row %d: got %q; want %q", i, got[i], want[i])
		}
	}
}
