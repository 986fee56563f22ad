package overview

import (
	"fmt"
	"path/filepath"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// checkTransports checks that the transport of every agent exists and accepts its address. It skips all addresses if
// the database is untrusted, and the addresses of agents on other hosts.
func checkTransports(x *examination) error {
	bad := false
	for _, name := range x.conf.Names {
		agent := x.conf.Agents[name]
		if x.conf.Untrusted != "" || agent.Disabled != "" || agent.Away() {
			continue
		}
		targets := []string{agent.Deliver, agent.Fallback}
		if agent.StartCommand != "" && x.l.Transports["exec"] != nil {
			targets = append(targets, "exec:"+agent.StartCommand)
		}
		for _, target := range targets {
			if target == "" {
				continue
			}
			if err := checkTarget(x.l, agent, target); err != nil {
				bad = true
				x.add(Finding{About: name, Level: Problem, Says: err.Error(), Do: "To correct the address, run `mailroom agent add " + name +
					" --deliver ...`"})
			}
		}
	}
	if bad {
		return nil
	}
	says := "checked " + orchestrator.Plural(len(x.conf.Names), "agent")
	if d, ok := x.c.Driver.(agents.InboxViews); ok {
		views, err := d.InboxViews()
		if err != nil {
			return err
		}
		if len(views) > 0 {
			says += " and " + orchestrator.Plural(len(views), "inbox view")
		}
	}
	x.add(Finding{Level: Fine, Says: says})
	return nil
}

// checkTarget checks a transport and address of an agent. If the check for a new agent would create a missing place,
// checkTarget uses a check that creates nothing: the place may be on a disk that is not mounted.
func checkTarget(l *ledger.Ledger, a *ledger.Agent, target string) error {
	transport, address := l.TransportOf(target)
	if placing, ok := transport.(orchestrator.Placing); ok {
		return placing.CheckPlace(a.Name, address)
	}
	_, err := agents.CheckDeliver(l, "deliver", target, a.Folder)
	return err
}

// checkManager finds agents whose silence or failed sessions are reported to nobody.
func checkManager(x *examination) error {
	var unreported []string
	for _, name := range x.conf.Names {
		if agents.SilenceUnreported(x.conf, name) {
			unreported = append(unreported, name)
		}
	}
	if manager := x.conf.Settings.Manager; len(unreported) > 0 {
		x.add(Finding{
			Level: Note, Says: "no agent gets a report when " + strings.Join(unreported, " or ") +
				" falls silent or fails to start, because the agent " + manager + " does not exist",
			Do: "Run `mailroom agent add " + manager + "`, or choose another agent with `mailroom setting set ralph.pm NAME`",
		})
	}
	return nil
}

// checkSessions finds agent names that several agent host sessions share.
func checkSessions(x *examination) error {
	for _, name := range x.conf.Names {
		sessions := x.members[name].backlog.Sessions
		if len(sessions) < 2 {
			continue
		}
		names := make([]string, len(sessions))
		for i, s := range sessions {
			names[i] = s.Name + " of " + s.Program
		}
		x.add(Finding{
			About: name, Level: Note, Do: "End all sessions except one, or give each session an agent name of its own",
			Says: fmt.Sprintf("%d running sessions share this agent name (%s). A message goes to the first session that checks for messages",
				len(names), strings.Join(names, ", ")),
		})
	}
	return nil
}

// checkCopies finds files left behind by killed backups and restores. It looks beside the database and in the backup
// folders, but skips the backup folders if the database is untrusted, since somebody else may have written their
// paths.
func checkCopies(x *examination) error {
	file, ok := x.l.Store.(store.FileChecker)
	if !ok {
		return nil
	}
	files, err := x.c.Texts(`
		SELECT json_extract(attributes, '$."` + tracing.AttrDirectory + `"') || '/any' FROM command_trace
		WHERE name = 'backup' AND json_valid(attributes)
		UNION SELECT json_extract(params, '$.file') FROM schedules WHERE command = 'backup' AND json_valid(params)`)
	if err != nil {
		return err
	}
	folders := []string{filepath.Dir(x.l.Path())}
	for _, file := range files {
		if x.conf.Untrusted == "" && filepath.IsAbs(file) {
			folders = append(folders, filepath.Dir(file))
		}
	}
	file.CheckCopies(folders, x.Report)
	return nil
}
