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

// Silent is the status of an agent that should be working, and from which nothing was heard for longer than its limit.
// It is never stored.
const Silent orchestrator.PresenceStatus = "silent"

// Removed is the status of an agent that was removed. It is never stored.
const Removed orchestrator.PresenceStatus = "removed"

// Condition says in one word how an agent stands: what is wrong with it, or what it does. It is never stored.
type Condition string

// Conditions of agents. One that is in several has the first of them.
const (
	disabled      Condition = "disabled"       // its transport is not used
	sessionFailed Condition = "session_failed" // the last run of its start command failed
	// so many runs in a row have failed that it is not started for these messages again
	givenUp     Condition = "given_up"
	fails       Condition = "fails" // a message to it failed in the last hour
	readsNoMail Condition = "unread"
	silent      Condition = "silent"
	retries     Condition = "retries" // a message waits for another attempt
	waits       Condition = "waiting" // it waits for messages right now
	works       Condition = "working" // its session runs, or it says so
	// idle and stopped, and working, too, are what it says itself: an orchestrator.PresenceStatus
	active     Condition = "active" // it says nothing, and was heard of within activeTime
	quiet      Condition = "quiet"  // it was heard of before that
	neverHeard Condition = ""
)

// activeTime is how long an agent counts as active after it was heard of.
const activeTime = 5 * time.Minute

// Standing is an agent, and how it stands.
type Standing struct {
	ledger.Agent
	State Condition `json:"state"`
	// what it was last known to do: working, idle, silent, stopped or removed; "" when nothing is known
	Status orchestrator.PresenceStatus `json:"status"`
	// of a silent agent: when it was last heard of
	StatusSince string `json:"status_since,omitempty"`
	// its silence was told to nobody: no other agent has the name ralph.pm
	Untold bool          `json:"untold,omitempty"`
	Run    *sessions.Run `json:"run,omitempty"` // the last run of its start command
	// agent that removed it; "" is the administrator
	RemovedBy string `json:"removed_by,omitempty"`
	// when it last sent, read, waited or was seen to work
	HeardAt string            `json:"heard_at,omitempty"`
	Backlog *RecipientBacklog `json:"backlog,omitempty"` // what waits for it, if that was asked
}

// StandingOf returns the standing of an agent, or of the operator or the user, and what waits for it. Error: not_found,
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

// standing is how an agent stands.
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

// isSilent reports whether nothing was heard of an agent for longer than its limit, though it was at work.
func (m *Member) isSilent(now time.Time) bool {
	return m.toldAt != "" || m.silentAt != "" && m.silentAt <= orchestrator.Stamp(now)
}

// runIs reports whether the last run of its start command is in a state.
func (m *Member) runIs(state sessions.RunState) bool { return m.run != nil && m.run.State == state }

// condition returns how a member stands.
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
