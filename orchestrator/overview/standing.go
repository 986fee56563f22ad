package overview

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
)

// Silent is the status of an agent that should be working, and from which nothing was heard for longer than its limit. It is
// never stored.
const Silent orchestrator.PresenceStatus = "silent"

// Removed is the status of an agent that was removed. It is never stored.
const Removed orchestrator.PresenceStatus = "removed"

// Standing is an agent, and what it was last known to do in any session.
type Standing struct {
	ledger.Agent
	Status      orchestrator.PresenceStatus `json:"status"`                 // working, idle, silent, stopped or removed; "" when nothing is known
	StatusSince string                      `json:"status_since,omitempty"` // of a silent agent: when it was last heard of
	Untold      bool                        `json:"untold,omitempty"`       // its silence was told to nobody: no other agent has the name ralph.pm
	Run         *sessions.Run               `json:"run,omitempty"`          // the last run of its start command
	RemovedBy   string                      `json:"removed_by,omitempty"`   // agent that removed it; "" is the administrator
	HeardAt     string                      `json:"heard_at,omitempty"`     // when it was last heard of, if there is a limit to its silence
	Backlog     *RecipientBacklog           `json:"backlog,omitempty"`      // what waits for it, if that was asked
}

// StandingOf returns the standing of an agent, or of the operator or the user. Error: not_found, whose hint names the most
// similar agents.
func StandingOf(ctx context.Context, l *ledger.Ledger, name string) (Standing, error) {
	a, err := agents.Get(ctx, l, name)
	if err != nil {
		return Standing{}, err
	}
	list, err := standings(ctx, l, a)
	if err != nil {
		return Standing{}, err
	}
	return list[0], nil
}

// standings returns the standings of these agents, in their order.
func standings(ctx context.Context, l *ledger.Ledger, known ...ledger.Agent) (list []Standing, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) (err error) {
		list, err = standingsIn(c, l, conf, known)
		return err
	})
	return list, err
}

// standingsIn is standings within a transaction. Of the operator and the user nothing more is known.
func standingsIn(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, known []ledger.Agent) (list []Standing, err error) {
	now := orchestrator.Stamp(l.Now())
	list = make([]Standing, len(known))
	for i, a := range known {
		s := &list[i]
		*s = Standing{Agent: a}
		if a.BuiltIn {
			continue
		}
		if s.Status, s.StatusSince, err = agents.LatestStatus(c, a.Name); err != nil {
			return nil, err
		}
		if err := addSilence(c, s, conf, now); err != nil {
			return nil, err
		}
		if s.Run, err = sessions.LastRun(c, a.Name); err != nil {
			return nil, err
		}
		if s.Run != nil {
			s.Run.Output = sessions.Output(l, a.Name)
		}
	}
	return list, nil
}

// addSilence corrects what an agent says of itself by when it was last heard of.
func addSilence(c *store.Conn, s *Standing, conf *ledger.Config, now string) error {
	return c.Query(`SELECT heard_at, silent_at, told_at FROM heartbeats WHERE agent = ?`, func(row store.Row) error {
		heard, silentAt, told := row.Text(0), row.Text(1), row.Text(2)
		s.HeardAt = heard
		switch {
		case told != "" || silentAt != "" && silentAt <= now:
			s.Status, s.StatusSince = Silent, heard
			s.Untold = told != "" && agents.Manager(conf, s.Name) == ""
		case s.Status == "":
			s.Status, s.StatusSince = orchestrator.Working, heard
		}
		return nil
	}, s.Name)
}

// RemovedAgents returns the agents that were removed and not added again, with the roles that they had.
func RemovedAgents(ctx context.Context, l *ledger.Ledger) ([]Standing, error) {
	return ledger.Ask(ctx, l, func(c *store.Conn) ([]Standing, error) {
		return store.List(c, func(row store.Row) Standing {
			return Standing{
				Agent: ledger.Agent{Name: row.Text(0), Role: row.Text(1), Groups: []string{}}, Status: Removed, StatusSince: row.Text(2),
				RemovedBy: row.Text(3),
			}
		}, `SELECT name, role, removed_at, removed_by FROM removed_agents ORDER BY name`)
	})
}
