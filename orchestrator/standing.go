package orchestrator

import (
	"context"

	"mailroom/orchestrator/store"
)

// Silent is the presence of an agent that works, for all that is known, and of which nothing was heard past its limit.
// It is stored nowhere.
const Silent PresenceStatus = "silent"

// Removed is the presence of a name that was removed, and is nobody's.
const Removed PresenceStatus = "removed"

// AgentStanding is an agent and what it was last known to do, in whatever session.
type AgentStanding struct {
	Agent
	Status      PresenceStatus `json:"status"`                 // working, idle, silent, stopped or removed; "" when nothing is known
	StatusSince string         `json:"status_since,omitempty"` // of a silent agent: when it was last heard of
	Untold      bool           `json:"untold,omitempty"`       // its silence was told to nobody: no other agent has the name ralph.pm
	Run         *Run           `json:"run,omitempty"`          // the last run of its start command
	RemovedBy   string         `json:"removed_by,omitempty"`   // agent that removed it; "" is the administrator
}

// AgentStandings lists who is known, by name, with what each was last known to do, and behind them the operator and the user.
func (r *Router) AgentStandings(ctx context.Context) (list []AgentStanding, err error) {
	agents, err := r.Agents(ctx)
	if err != nil {
		return nil, err
	}
	err = r.read(ctx, func(c *Conn) error {
		list, err = c.standings(r, agents)
		return err
	})
	if err != nil {
		return nil, err
	}
	others, err := r.BuiltIns(ctx)
	for _, a := range others {
		list = append(list, AgentStanding{Agent: a})
	}
	return list, err
}

// AgentStanding returns one known agent, or the operator or the user. Error: not_found, with the nearest known names.
func (r *Router) AgentStanding(ctx context.Context, name string) (s AgentStanding, err error) {
	a, err := r.Agent(ctx, name)
	if err != nil || a.BuiltIn {
		return AgentStanding{Agent: a}, err
	}
	err = r.read(ctx, func(c *Conn) error {
		list, err := c.standings(r, []Agent{a})
		if err == nil {
			s = list[0]
		}
		return err
	})
	return s, err
}

func (c *Conn) standings(r *Router, agents []Agent) ([]AgentStanding, error) {
	conf, err := r.config.load(c)
	if err != nil {
		return nil, err
	}
	now := stamp(r.Now())
	list := make([]AgentStanding, len(agents))
	for i, a := range agents {
		s := AgentStanding{Agent: a}
		if s.Status, s.StatusSince, err = c.latestStatus(a.Name); err != nil {
			return nil, err
		}
		if err := c.addSilence(&s, conf, now); err != nil {
			return nil, err
		}
		if s.Run, err = c.lastRun(a.Name); err != nil {
			return nil, err
		}
		if s.Run != nil {
			s.Run.Output = r.SessionOutput(a.Name)
		}
		list[i] = s
	}
	return list, nil
}

// addSilence corrects what an agent says of itself by when it was last heard of.
func (c *Conn) addSilence(s *AgentStanding, conf *config, now string) error {
	return c.query(`SELECT heard_at, silent_at, told_at FROM heartbeats WHERE agent = ?`, func(row store.Row) error {
		heard, silentAt, told := row.Text(0), row.Text(1), row.Text(2)
		switch {
		case told != "" || silentAt != "" && silentAt <= now:
			s.Status, s.StatusSince = Silent, heard
			s.Untold = told != "" && conf.manager(s.Name) == ""
		case s.Status == "":
			s.Status, s.StatusSince = Working, heard
		}
		return nil
	}, s.Name)
}

// RemovedAgents lists the names that were removed and not added again, with their former roles.
func (r *Router) RemovedAgents(ctx context.Context) (list []AgentStanding, err error) {
	err = r.read(ctx, func(c *Conn) error {
		list = nil
		return c.query(`SELECT name, role, removed_at, removed_by FROM removed_agents ORDER BY name`, func(row store.Row) error {
			list = append(list, AgentStanding{
				Agent: Agent{Name: row.Text(0), Role: row.Text(1), Groups: []string{}}, Status: Removed, StatusSince: row.Text(2),
				RemovedBy: row.Text(3),
			})
			return nil
		})
	})
	return list, err
}
