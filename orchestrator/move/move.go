// Package move moves a database to another place: from a file to a server, or back.
//
// The old place is held still meanwhile. The new one is filled in one transaction, compared and committed, but takes no
// writes; then the old one is marked, and takes none any more; then the new one is opened. Killed at any moment it can
// be run again, and at no moment can both be written.
package move

import (
	"context"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Moved says what was moved.
type Moved struct {
	Tables []Table
	Before bool     // all was moved by an earlier run: this one has at most finished it
	Left   []string // tables of other programs, which stay
	Leases int64    // that were ended: the processes that have them deliver at the old place
	Hosts  int64    // agents that belong to this machine from now on
	// those of them that belonged to another, in a database that is for one machine now, as "bob of db2"
	Others  []string
	Repairs Repairs
	// Standstill is for how long nobody could write.
	Standstill time.Duration
}

// Table is a table that was moved.
type Table struct {
	Name string `json:"table"`
	Rows int64  `json:"rows"`
}

// Rows returns how many rows were moved in all.
func (m *Moved) Rows() (n int64) {
	for _, t := range m.Tables {
		n += t.Rows
	}
	return n
}

// moving is a move under way.
type moving struct {
	from, to *ledger.Ledger
	old      string            // the old place, as the new one names it
	reached  func(step string) // see Run
}

// Run moves a database, and calls reached, unless it is nil, with the name of each step that is done. The new place may not be there yet,
// and may hold nothing but what is made with it. Errors: conflict for a place that holds more, or where the database is
// not any more; unavailable when what arrived differs; those of the databases.
func Run(ctx context.Context, from, to *ledger.Ledger, reached func(step string)) (Moved, error) {
	if from.TrustedPath() == to.TrustedPath() {
		return Moved{}, orchestrator.Errorf(orchestrator.InvalidParams, "the database is already at %s", to.Path()).
			WithHint("Specify the old location with `--from` and the new location with `--db`")
	}
	if reached == nil {
		reached = func(string) {}
	}
	from.Moves, to.Moves = true, true
	defer func() { to.Moves = false }()
	conf, err := from.Configuration(ctx)
	if err != nil {
		return Moved{}, err
	}
	if err := person.Here(ctx, from); err != nil {
		return Moved{}, err // the keys of questions move with it
	}
	m := &moving{from, to, origin(from, conf), reached}
	switch at := conf.Stored[store.MovedTo]; {
	case at == to.Path():
		return Moved{Before: true}, m.finish(ctx)
	case at != "":
		return Moved{}, orchestrator.Errorf(orchestrator.Conflict, "the database has already moved from %s to %s",
			from.Path(), at).WithHint("Specify the current location with `--from`")
	case conf.Stored[store.MovingFrom] != "":
		return Moved{}, orchestrator.Errorf(orchestrator.Conflict, "a database is still moving to %s", from.Path()).
			WithHint("First run the interrupted `mailroom migrate` again")
	}
	if _, err := to.Store.Create(); err != nil {
		return Moved{}, err
	}
	reached("made")
	moved, err := m.leave(ctx)
	if err != nil {
		return Moved{}, err
	}
	reached("marked")
	return moved, m.finish(ctx)
}

// origin names an old place for the new one.
func origin(from *ledger.Ledger, conf *ledger.Config) string {
	return conf.Stored[store.DatabaseID] + " " + from.Path()
}

// leave fills the new place and marks the old one, in one transaction of that.
func (m *moving) leave(ctx context.Context) (moved Moved, err error) {
	var failed error
	var began time.Time // of the last run
	err = m.from.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if failed != nil {
			return failed // it would fail again
		}
		again := !began.IsZero()
		began = time.Now()
		source, err := mover(t)
		if err == nil {
			err = source.HoldStill(again)
		}
		if err != nil {
			return err
		}
		m.reached("held")
		moved, err = m.arrive(ctx, source)
		if err == nil {
			m.reached("arrived")
			err = mark(t, source, store.MovedTo, m.to.Path())
		}
		failed = err
		return err
	})
	if !began.IsZero() {
		moved.Standstill = time.Since(began)
	}
	return moved, err
}

// mark stores, or with "" deletes, a row of settings that closes a database, and so closes or opens it.
func mark(t *ledger.Tx, m store.Mover, key, value string) error {
	var err error
	if value != "" {
		err = t.StoreSetting(key, value)
	} else {
		err = t.Run(`DELETE FROM settings WHERE key = ?1`, key)
	}
	if err == nil {
		err = m.Shut()
	}
	if err != nil {
		return err
	}
	return t.ConfigChanged()
}

func mover(t *ledger.Tx) (store.Mover, error) {
	if m, ok := t.Driver.(store.Mover); ok {
		return m, nil
	}
	return nil, orchestrator.Errorf(orchestrator.Unavailable, "this kind of database cannot be moved")
}

// arrive fills the new place and compares it, in one transaction of that.
func (m *moving) arrive(ctx context.Context, source store.Mover) (moved Moved, err error) {
	var failed error
	again := false
	err = m.to.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if failed != nil {
			return failed
		}
		target, err := mover(t)
		if err == nil {
			err = target.HoldStill(again)
		}
		again = true
		if err != nil {
			return err
		}
		moved, failed = m.fill(&copying{ctx: ctx, from: source, to: target, tx: t, reached: m.reached})
		return failed
	})
	return moved, err
}

// fill copies the database, compares the copy and makes it right for its place.
func (m *moving) fill(c *copying) (moved Moved, err error) {
	place := func(value string) func() error {
		return func() error { return mark(c.tx, c.to, store.MovingFrom, value) }
	}
	for _, step := range []func() error{
		c.plan, func() error { return c.mayArrive(m.old) }, place(""), c.clear, c.copy, c.compare,
		func() error { return c.settle(&moved) }, place(m.old),
	} {
		if err := step(); err != nil {
			return moved, err
		}
	}
	moved.Tables, moved.Left, moved.Repairs = c.tables(), c.left, c.repairs
	m.reached("filled")
	return moved, nil
}

// replaced are the tables that a place may have rows in though nobody has used it: those that init makes, and what a
// daemon writes there. These go, as docs/postgres.md says.
var replaced = []string{settings, "schedules", "groups", "message_count", "daemons", "exports", "command_trace",
	"signal_keys"}

// mayArrive refuses a place that holds something, unless it is from an earlier run, which nobody could write since. A
// place that was made takes writes until it is filled, for good if the run was killed in between. What somebody writes
// there by then is found here, while nobody else writes, and so nothing of it is lost.
func (c *copying) mayArrive(old string) error {
	t := c.tx
	switch before := t.Config().Stored[store.MovingFrom]; {
	case t.Config().Stored[store.MovedTo] != "":
		return orchestrator.Errorf(orchestrator.Conflict, "the database at %s has moved to another location",
			t.Ledger.Path()).
			WithHint("Specify another location with `--db`. Or, if nobody needs the old database, delete its file or schema and try again")
	case before == old:
		return nil
	case before != "":
		return orchestrator.Errorf(orchestrator.Conflict, "another database is still moving to %s: %s", t.Ledger.Path(),
			before).
			WithHint("Run the interrupted `mailroom migrate` again, or specify another location with `--db`")
	}
	for _, p := range c.pairs {
		if slices.Contains(replaced, p.to.Name) {
			continue
		}
		n, err := t.Number(`SELECT EXISTS (SELECT 1 FROM ` + p.to.Name + `)`)
		if err != nil {
			return err
		}
		if n > 0 {
			return orchestrator.Errorf(orchestrator.Conflict, "%s is not empty: its table %s has rows",
				t.Ledger.Path(), p.to.Name).
				WithHint("With `--db`, specify a location that has no database yet or an empty database")
		}
	}
	return nil
}

// settle makes what was copied right for its new place.
func (c *copying) settle(m *Moved) (err error) {
	t := c.tx
	for _, p := range t.Ledger.Parts {
		for _, o := range p.Outdated {
			if o.Valid != "" {
				continue // it moves, and is as valid as before
			}
			if err := t.Run(o.End, t.ClockText); err != nil {
				return err
			}
		}
	}
	if err := t.Note(ledger.Selection{Where: ledger.Leased}, tracing.Released,
		"the database is moving to another location"); err != nil {
		return err
	}
	if m.Leases, err = t.Exec(`UPDATE agent_message SET ` + ledger.NoLease + ` WHERE ` + ledger.Leased); err != nil {
		return err
	}
	for _, statement := range []string{`UPDATE exports SET lease_owner = '', lease_token = '', lease_until = ''`,
		`DELETE FROM daemons`} {
		if err := t.Run(statement); err != nil {
			return err
		}
	}
	for _, seq := range c.adopt {
		if err := t.Run(`UPDATE agent_message SET traced_status = '' WHERE seq = ?1`, seq); err != nil {
			return err
		}
	}
	if len(c.adopt) > 0 { // they count once they are adopted
		if err := ledger.Recount(t); err != nil {
			return err
		}
	}
	return settleHosts(t, m)
}

// settleHosts has the agents that are on one machine, and signal, belong to this one, if the new place is for many; in
// a file nothing belongs to any.
func settleHosts(t *ledger.Tx, m *Moved) error {
	if err := person.Stay(t); err != nil {
		return err
	}
	if !t.Ledger.IsCentral() {
		var err error
		m.Others, err = store.List(t.Conn, func(row store.Row) string { return row.Text(0) + " of " + row.Text(1) },
			`SELECT name, host FROM agents WHERE host <> '' AND host <> ?1 ORDER BY name`, t.Ledger.Host())
		if err == nil {
			m.Hosts, err = t.Exec(`UPDATE agents SET host = '' WHERE host <> ''`)
		}
		return err
	}
	list, err := store.List(t.Conn, func(row store.Row) ledger.Agent {
		return ledger.Agent{Name: row.Text(0), Deliver: row.Text(1), Fallback: row.Text(2), StartCommand: row.Text(3)}
	}, `SELECT name, deliver, fallback, start_command FROM agents WHERE host = ''`)
	for _, a := range list {
		if err == nil && ledger.NeedsHost(t.Ledger, &a) {
			m.Hosts++
			err = t.Run(`UPDATE agents SET host = ?1 WHERE name = ?2`, t.Ledger.Host(), a.Name)
		}
	}
	return err
}

// finish opens the new place, once the old one is marked. What stands beside the old one comes along.
func (m *moving) finish(ctx context.Context) error {
	from, to := m.from, m.to
	conf, err := to.Configuration(ctx)
	if err != nil || conf.Stored[store.MovingFrom] == "" {
		return err
	}
	if conf.Stored[store.MovingFrom] != m.old {
		return orchestrator.Errorf(orchestrator.Conflict,
			"the database %s cannot finish its move to %s: another database is moving to that location", from.Path(), to.Path())
	}
	if err := person.CopyKeys(from, to); err != nil {
		return err
	}
	m.reached("keys")
	if id, _, _ := strings.Cut(m.old, " "); to.Trust != nil && !to.Trust.Made(id, from.TrustedPath()) {
		if err := to.Trust.Remove(conf.Stored[store.DatabaseID], to.TrustedPath()); err != nil {
			return err
		}
	}
	return to.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		target, err := mover(t)
		if err != nil {
			return err
		}
		return mark(t, target, store.MovingFrom, "")
	})
}

// tables lists the tables with their rows, those with most first.
func (c *copying) tables() (list []Table) {
	for _, p := range c.pairs {
		list = append(list, Table{p.to.Name, p.sent.n})
	}
	slices.SortStableFunc(list, func(a, b Table) int { return int(b.Rows - a.Rows) })
	return list
}
