package operations

import (
	"context"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/move"
)

// MigrateParams names the database to move from. The database to move to is that of --db.
type MigrateParams struct {
	From string `json:"from" desc:"database to move: a file, or postgres://USER@HOST/DATABASE" check:"min=1,max=4096"`
}

// MigrateResult describes what was moved.
type MigrateResult struct {
	Database string       `json:"database"`
	From     string       `json:"from"`
	Finished bool         `json:"finished_before,omitempty"` // an earlier run already moved all of it
	Rows     int64        `json:"rows"`
	Tables   []move.Table `json:"tables"`
	// Standstill is how long writes were blocked.
	Standstill float64 `json:"standstill_seconds"`
	Leases     int64   `json:"leases_ended"`
	Hosts      int64   `json:"agents_of_host"`
	// agents in the form "bob of db2", whose files, commands and sessions are on that machine
	Others   []string `json:"agents_of_other_hosts"`
	Repaired int64    `json:"repaired"`
	Repairs  []string `json:"repairs"` // the first repairs
	Left     []string `json:"left"`    // tables of other programs

	// For people only.
	central bool
	host    string
}

var migrateCommand = commands.Define(vocabulary, "migrate", migrate).With(commands.Traits{
	HereOnly: true, MakesOne: true,
	Confirm: "This moves the database from {from} to {database}. The old database becomes read-only.",
})

// migrate opens the database to move from, beside that of the call, and moves it.
func migrate(ctx context.Context, env commands.Env, p MigrateParams) (MigrateResult, error) {
	old, err := env.Engine.OpenOther(ctx, p.From)
	if err != nil {
		return MigrateResult{}, err
	}
	defer old.Close()
	m, err := move.Run(ctx, old.Ledger, env.Ledger, nil)
	if err != nil {
		return MigrateResult{}, err
	}
	r := MigrateResult{Database: env.Ledger.Path(), From: old.Path(), Finished: m.Before, Rows: m.Rows(),
		Tables:     []move.Table{},
		Standstill: m.Standstill.Round(time.Millisecond).Seconds(), Leases: m.Leases, Hosts: m.Hosts,
		Others: []string{}, Repaired: m.Repairs.N, Repairs: []string{}, Left: []string{},
		central: env.Ledger.IsCentral(), host: env.Ledger.Host()}
	r.Tables, r.Others = append(r.Tables, m.Tables...), append(r.Others, m.Others...)
	r.Repairs, r.Left = append(r.Repairs, m.Repairs.First...), append(r.Left, m.Left...)
	return r, nil
}

// Text writes the result for people.
func (r MigrateResult) Text(w *terminal.Text) {
	if r.Finished {
		w.Printf("The database %s has already moved to %s.\n", terminal.Inline(r.From), terminal.Inline(r.Database))
		return
	}
	w.Printf("Moved %s from %s to %s, and verified the copy. Writes were blocked for %g s.\n",
		orchestrator.Plural(int(r.Rows), "row"),
		terminal.Inline(r.From), terminal.Inline(r.Database), r.Standstill)
	for _, t := range r.Tables {
		if t.Rows > 0 {
			w.Printf("  %8d  %s\n", t.Rows, t.Name)
		}
	}
	if r.Leases > 0 {
		w.Printf("The move interrupted the delivery of %s. The next delivery run repeats it.\n",
			orchestrator.Plural(int(r.Leases), "message"))
	}
	if r.Hosts > 0 && r.central {
		w.Printf("Assigned %s with files or commands on this machine to the host %s.\n",
			orchestrator.Plural(int(r.Hosts), "agent"), r.host)
	}
	if len(r.Others) > 0 {
		w.Printf("A database file is for one machine. From now on, these agents must have their files, commands, and sessions on this machine: %s.\n", terminal.Inline(strings.Join(r.Others, ", ")))
	}
	if r.Repaired > 0 {
		w.Printf("Mailroom had to change %s:\n", orchestrator.Plural(int(r.Repaired), "value"))
		for _, line := range r.Repairs {
			w.Printf("  %s\n", terminal.Inline(line))
		}
	}
	for _, table := range r.Left {
		w.Printf("The table %s belongs to another program and was not moved.\n", terminal.Inline(table))
	}
	w.Printf("The old database is now read-only. To use the new one, set --db or MAILROOM_DB. Restart all programs that had the old database open.\n")
}
