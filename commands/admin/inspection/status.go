package inspection

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/overview"
)

// StatusResult is the state of the whole system.
type StatusResult struct{ overview.State }

var statusCommand = commands.Define(vocabulary, "status", status)

func status(ctx context.Context, env commands.Env, _ struct{}) (StatusResult, error) {
	state, err := overview.Status(ctx, env.Ledger)
	return StatusResult{state}, err
}

// Text writes the backlog as a table, and the rest as lines.
func (r StatusResult) Text(w *terminal.Text) {
	w.Fields(
		[2]string{"database", r.Database},
		[2]string{"on disk",
			fmt.Sprintf("%.1f MB, plus a write-ahead log of %.1f MB", float64(r.Bytes)/(1<<20), float64(r.WALBytes)/(1<<20))},
		[2]string{"messages",
			fmt.Sprintf("%d pending, %d retry, %d delivered, %d failed, %d expired, %d cancelled, %d archived",
				r.Totals["pending"], r.Totals["retry"], r.Totals["delivered"], r.Totals["failed"], r.Totals["expired"],
				r.Totals["cancelled"], r.Totals["archived"])},
		[2]string{"next due", w.When(r.NextDueAt)},
	)
	if r.MovedTo != "" {
		w.Printf("%s\n",
			w.Paint(terminal.Red,
				"The database has moved to "+r.MovedTo+". Use the new database: this one is read-only."))
		return
	}
	commands.NotTrusted(w, r.Untrusted)
	for _, d := range r.Daemons {
		w.Printf("daemon %s (process %d%s), started %s %s\n", d.Instance, d.PID, r.hostOf(d), w.When(d.StartedAt),
			d.Listening)
	}
	if len(r.Daemons) == 0 {
		w.Printf("%s\n",
			w.Paint(terminal.Yellow,
				"No daemon is running. Messages are delivered only when somebody runs `mailroom deliver_all` or a recipient checks for messages."))
	}
	if r.Overdue > 0 {
		w.Printf("%s\n",
			w.Paint(terminal.Red,
				fmt.Sprintf("Overdue: %s. To list them, run `mailroom sql --named overdue`.",
					orchestrator.Plural(int(r.Overdue), "message"))))
	}
	if len(r.Recipients) == 0 {
		return
	}
	w.Printf("\n")
	terminal.TableOf(w,
		[]string{"RECIPIENT", "PENDING", "LATER", "RETRY", "LEASED", "HELD", "UNREAD", "SHOWN", "OLDEST"}, r.Recipients,
		func(b *overview.RecipientBacklog) []string {
			name := cmp.Or(b.Recipient, "?")
			if !b.Known {
				name += " (unknown)"
			}
			if b.Disabled != "" {
				name += " (disabled)"
			}
			return []string{name, fmt.Sprint(b.Pending), fmt.Sprint(b.Later), fmt.Sprint(b.Retry), fmt.Sprint(b.Leased),
				fmt.Sprint(b.Held), fmt.Sprint(b.Unread), fmt.Sprint(b.Shown), w.When(b.OldestAt)}
		})
	r.sayHosts(w)
}

// sayHosts writes the sessions of agent hosts.
func (r *StatusResult) sayHosts(w *terminal.Text) {
	var rows [][]string
	for i := range r.Recipients {
		b := &r.Recipients[i]
		for _, s := range b.Sessions {
			name := b.Recipient
			if n := len(b.Sessions); n > 1 {
				name += fmt.Sprintf(" (%d sessions)", n)
			}
			rows = append(rows, []string{name, s.Program, s.State, w.When(s.SeenAt), s.Name})
		}
	}
	if len(rows) > 0 {
		w.Printf("\n")
		w.Table([]string{"AGENT", "HOST", "STATE", "SEEN", "SESSION"}, rows)
	}
}

// hostOf returns where a daemon runs, or "" if all daemons run on the same host.
func (r StatusResult) hostOf(d daemons.Daemon) string {
	if !slices.ContainsFunc(r.Daemons, func(other daemons.Daemon) bool { return other.Host != d.Host }) {
		return ""
	}
	return " on " + d.Host
}
