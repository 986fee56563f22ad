package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/store"
)

// addSessions adds the sessions of agent hosts in which the recipients work.
func addSessions(c *store.Conn, list []RecipientBacklog, now time.Time) error {
	living, err := hosts.Living(c, now)
	for _, s := range living {
		i := slices.IndexFunc(list, func(b RecipientBacklog) bool { return b.Recipient == s.Agent })
		if i >= 0 {
			list[i].Sessions = append(list[i].Sessions, s)
		}
	}
	return err
}

// hosts tells of agents of which several sessions of agent hosts live, and of those that have messages and of which no host has
// told for long. It says nothing as long as there are no such sessions.
func (d *doctor) hosts(c *store.Conn) error {
	living, err := hosts.Living(c, d.ledger.Now())
	if err != nil {
		return err
	}
	for _, of := range byAgent(living) {
		if len(of) > 1 {
			names := make([]string, len(of))
			for i, s := range of {
				names[i] = s.Name + " of " + s.Program
			}
			d.add("sessions of "+of[0].Agent, "note", fmt.Sprintf("%d sessions have that name and live: %s. A message goes to whichever looks first",
				len(of), strings.Join(names, ", ")), "End all but one, or give each an agent of its own")
		}
	}
	return c.Query(`
		SELECT agent, max(seen_at), (SELECT count(*) FROM agent_inbox i WHERE i.recipient = h.agent AND i.read_at = '')
		FROM host_sessions h GROUP BY agent HAVING max(seen_at) < ?`, func(row store.Row) error {
		if n := int(row.Int(2)); n > 0 {
			name := row.Text(0)
			d.add("hooks of "+name, "note", fmt.Sprintf("%s unread, and its agent host has not told of it since %s", orchestrator.Plural(n, "message"), row.Text(1)),
				"Begin a session, and look whether its hooks are on; `mailroom wait --recipient "+name+"` reads them here")
		}
		return nil
	}, orchestrator.Stamp(d.ledger.Now().Add(-noHooks)))
}

// noHooks is how long no hook may have been called for an agent that has unread messages.
const noHooks = time.Hour

// byAgent parts sessions, which are sorted by their agents.
func byAgent(list []hosts.Session) (parts [][]hosts.Session) {
	for i := range list {
		if i == 0 || list[i].Agent != list[i-1].Agent {
			parts = append(parts, nil)
		}
		last := &parts[len(parts)-1]
		*last = append(*last, list[i])
	}
	return parts
}
