// Package move moves a database to another place: from a file to a server, or back.
//
// The old place takes no writes during the move. The new place is filled in one transaction, compared and committed,
// but takes no writes yet. Then the old place is marked, and takes no writes any more. Then the new place is opened.
// A move that was killed at any moment can be run again, and at no moment do both places take writes.
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

// Moved is the result of a move.
type Moved struct {
	Tables []Table
	Before bool     // an earlier run moved everything; this run at most finished the move
	Left   []string // tables of other programs, which stay at the old place
	Leases int64    // leases that were ended, because their processes deliver at the old place
	Hosts  int64    // agents that belong to this machine from now on
	// Others lists those that belonged to another machine, as "bob of db2", if the new database is for one machine.
	Others  []string
	Repairs Repairs
	// Standstill is how long writes were blocked.
	Standstill time.Duration
}

// Table is a table that was moved.
type Table struct {
	Name string `json:"table"`
	Rows int64  `json:"rows"`
}

// Rows returns the number of all rows that were moved.
func (m *Moved) Rows() (n int64) {
	for _, t := range m.Tables {
		n += t.Rows
	}
	return n
}

// moving is a move in progress.
type moving struct {
	from, to *ledger.Ledger
	old      string            // name of the old place that the new one stores
	reached  func(step string) // see Run
}

// Run moves a database. Unless reached is nil, Run calls it with the name of each completed step. The new place need
// not exist yet, and must contain nothing except what a new database contains. Errors: conflict if the new place
// contains more, or if the database is no longer at the old place; unavailable if this kind of database cannot be
// moved; internal if the copy differs; those of the databases.
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
		return Moved{}, err // the keys of questions move with the database
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

// origin returns the name of the old place that the new place stores.
func origin(from *ledger.Ledger, conf *ledger.Config) string {
	return conf.Stored[store.DatabaseID] + " " + from.Path()
}

// leave fills the new place and marks the old one, in one transaction of the old one.
func (m *moving) leave(ctx context.Context) (moved Moved, err error) {
	var failed error
	var began time.Time // beginning of the last run of the transaction
	err = m.from.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if failed != nil {
			return failed // another run would fail again
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

// mark stores a row of settings that closes a database, or deletes the row if value is "", which opens the database
// again.
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

// arrive fills the new place and compares it, in one transaction of the new place.
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

// fill copies the database, compares the copy, and adapts it to its place.
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

// replaced lists the tables that may have rows at an unused place: those that init fills, and those that a daemon
// fills. Their rows are deleted, as docs/postgres.md states.
var replaced = []string{settings, "schedules", "groups", "message_count", "daemons", "exports", "command_trace",
	"signal_keys"}

// mayArrive refuses a place that contains rows, unless they are from an earlier run: since that run, no program could
// write there. A newly made place takes writes until it is filled, even after a run that was killed in between.
// mayArrive finds the rows written by then, and no other program can write at the same time, so no row is lost.
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

// settle adapts the copied rows to their new place.
func (c *copying) settle(m *Moved) (err error) {
	t := c.tx
	for _, p := range t.Ledger.Parts {
		for _, o := range p.Outdated {
			if o.Valid != "" {
				continue // these records move and stay valid
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
	if len(c.adopt) > 0 { // the counts include them only after their adoption
		if err := ledger.Recount(t); err != nil {
			return err
		}
	}
	return settleHosts(t, m)
}

// settleHosts assigns the agents that need a machine, and the keys of phones, to this machine, if the new place is a
// server. In a file, nothing belongs to a machine.
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

// finish opens the new place once the old one is marked. It also copies the files beside the old place: the keys.
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

// tables lists the tables and their numbers of rows, the largest first.
func (c *copying) tables() (list []Table) {
	for _, p := range c.pairs {
		list = append(list, Table{p.to.Name, p.sent.n})
	}
	slices.SortStableFunc(list, func(a, b Table) int { return int(b.Rows - a.Rows) })
	return list
}
