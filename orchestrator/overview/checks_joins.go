package overview

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// latestCommands are those among which checkJoins looks.
const latestCommands = 20_000

// checkJoins finds who tried in vain to join from another machine, and whether an invitation was used twice: then one of the
// two was not meant.
func checkJoins(x *examination) error {
	return x.c.Query(`SELECT caller, count(*), max(started_at), max(CASE WHEN status_message LIKE '%was used at%' THEN 1 ELSE 0 END)
		FROM command_trace WHERE id > (SELECT coalesce(max(id), 0) FROM command_trace) - ? AND name = 'join' AND status = 'ERROR'
		GROUP BY caller ORDER BY caller`, func(row store.Row) error {
		name, n := row.Text(0), row.Int(1)
		f := Finding{About: name, Level: Note, Count: n, Says: "Somebody tried " + orchestrator.Plural(int(n), "time") + " to join as " + name + ", and could not",
			Because: "the last time at " + row.Text(2)}
		if row.Int(3) > 0 {
			f.Level, f.Says = Problem, "An invitation for "+name+" was used twice"
			f.Do = "If the first was not meant: `mailroom agent token " + name + " --revoke`, and a new `mailroom invite " + name + "`"
		}
		x.add(f)
		return nil
	}, latestCommands)
}
