package overview

import (
	"maps"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// latestCommands is how many of the latest commands checkJoins examines.
const latestCommands = 20_000

// checkJoins finds failed attempts to join from another machine. It reports a problem if an invitation was used
// twice, because then one of the two machines was not meant.
func checkJoins(x *examination) error {
	found := map[string]*Finding{}
	err := x.c.Query(`SELECT caller, started_at, status_message FROM command_trace
		WHERE id > (SELECT coalesce(max(id), 0) FROM command_trace) - ? AND name = 'join' AND status = 'ERROR' ORDER BY id`, func(row store.Row) error {
		name := row.Text(0)
		f := found[name]
		if f == nil {
			f = &Finding{About: name, Level: Note}
			found[name] = f
		}
		f.Count++
		f.Because = "most recently at " + row.Text(1)
		if strings.Contains(row.Text(2), "was used at") {
			f.Level = Problem
		}
		return nil
	}, latestCommands)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		f := found[name]
		f.Says = "Somebody tried to join as " + name + " and failed " + orchestrator.Plural(int(f.Count), "time")
		if f.Level == Problem {
			f.Says = "An invitation for " + name + " was used twice"
			f.Do = "If you did not expect the first use, run `mailroom agent token " + name + " --revoke`, and invite the agent again with `mailroom invite " + name + "`"
		}
		x.add(*f)
	}
	return err
}
