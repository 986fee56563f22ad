package overview

import (
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
)

// Silent is the status of an agent that should be working and was not heard from for longer than its limit. It is
// never stored.
const Silent orchestrator.PresenceStatus = "silent"

// Removed is the status of an agent that was removed. It is never stored.
const Removed orchestrator.PresenceStatus = "removed"

// Condition is the state of an agent in one word: what is wrong with it, or what it does. It is never stored.
type Condition string

// Conditions of agents. An agent to which several apply has the first of them.
const (
	disabled      Condition = "disabled"       // its transport is disabled
	sessionFailed Condition = "session_failed" // the last run of its start command failed
	// givenUp: so many runs in a row failed that the agent is not started for these messages again.
	givenUp     Condition = "given_up"
	fails       Condition = "fails" // a message to it failed in the last hour
	readsNoMail Condition = "unread"
	silent      Condition = "silent"
	retries     Condition = "retries" // a message waits for another attempt
	waits       Condition = "waiting" // it waits for messages right now
	works       Condition = "working" // its session runs, or it reported this status
	// An agent itself reports the states idle, stopped and working: see orchestrator.PresenceStatus.
	active     Condition = "active" // it reports no status, and was heard from within activeTime
	quiet      Condition = "quiet"  // it was last heard from before that
	neverHeard Condition = ""
)

// activeTime is how long an agent counts as active after it was heard from.
const activeTime = 5 * time.Minute

// Standing is an agent and its state.
type Standing struct {
	ledger.Agent
	State Condition `json:"state"`
	// Status is the last known status: working, idle, silent, stopped or removed; "" if none is known.
	Status orchestrator.PresenceStatus `json:"status"`
	// StatusSince is when the status began; for a silent agent, when it was last heard from.
	StatusSince string `json:"status_since,omitempty"`
	// Untold is set if the agent's silence was reported to nobody, because no other agent has the name in ralph.pm.
	Untold bool          `json:"untold,omitempty"`
	Run    *sessions.Run `json:"run,omitempty"` // the last run of its start command
	// RemovedBy is the agent that removed it; "" is the administrator.
	RemovedBy string `json:"removed_by,omitempty"`
	// HeardAt is when it last sent, read, waited or was seen working.
	HeardAt string            `json:"heard_at,omitempty"`
	Backlog *RecipientBacklog `json:"backlog,omitempty"` // what waits for it, if requested
}

// StandingOf returns the state of an agent, of the operator or of the user, and what waits for it. Error: not_found,
// whose hint names the most similar agents.
func StandingOf(ctx context.Context, l *ledger.Ledger, name string) (standing Standing, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		a, err := agents.GetIn(c, l, conf, name)
		if err != nil {
			return err
		}
		s, err := takeSnapshot(c, l, conf)
		if err == nil {
			standing = s.standing(a)
		}
		return err
	})
	return standing, err
}

// standing returns the state of an agent.
func (s *snapshot) standing(a ledger.Agent) (r Standing) {
	m := s.members[a.Name]
	b := m.backlog
	b.Recipient, b.Known = m.Name, true
	r = Standing{Agent: a, State: s.condition(m), HeardAt: m.HeardAt, Backlog: &b}
	if m.BuiltIn {
		return r
	}
	if r.Status, r.StatusSince = m.lastStatus, m.lastSince; m.isSilent(s.now) {
		r.Status, r.StatusSince = Silent, m.beatAt
		r.Untold = m.toldAt != "" && agents.Manager(s.conf, m.Name) == ""
	} else if r.Status == "" && m.beatAt != "" {
		r.Status, r.StatusSince = orchestrator.Working, m.beatAt
	}
	if r.Run = m.run; r.Run != nil {
		r.Run.Output = sessions.Output(s.l, m.Name)
	}
	return r
}

// isSilent reports whether an agent was at work and then not heard from for longer than its limit.
func (m *Member) isSilent(now time.Time) bool {
	return m.toldAt != "" || m.silentAt != "" && m.silentAt <= orchestrator.Stamp(now)
}

// runIs reports whether the last run of the start command is in a state.
func (m *Member) runIs(state sessions.RunState) bool { return m.run != nil && m.run.State == state }

// condition returns the condition of a member.
func (s *snapshot) condition(m *Member) Condition {
	switch {
	case isDisabled(m):
		return disabled
	case m.runIs(sessions.Failed):
		return sessionFailed
	case m.runIs(sessions.GivenUp):
		return givenUp
	case m.failedAt != "":
		return fails
	case !m.BuiltIn && s.unreadTooLong(m):
		return readsNoMail
	case m.waits:
		return waits
	case m.isSilent(s.now):
		return silent
	case m.backlog.Retry > 0:
		return retries
	case m.runIs(sessions.Running):
		return works
	case m.lastStatus != "":
		return Condition(m.lastStatus)
	case m.HeardAt == "":
		return neverHeard
	case s.now.Sub(orchestrator.ParseStamp(m.HeardAt)) < activeTime:
		return active
	}
	return quiet
}

// RemovedAgents returns the agents that were removed and not added again, with the roles that they had.
func RemovedAgents(ctx context.Context, l *ledger.Ledger) ([]Standing, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]Standing, error) {
		return store.List(c, func(row store.Row) Standing {
			return Standing{
				Agent: ledger.Agent{Name: row.Text(0), Role: row.Text(1), Groups: []string{}}, Status: Removed,
				StatusSince: row.Text(2),
				RemovedBy:   row.Text(3),
			}
		}, `SELECT name, role, removed_at, removed_by FROM removed_agents ORDER BY name`)
	})
}
