// Package teams lets the agents of a session work as a team. They write to each other or to all, ask each other to
// shut down or to approve a plan, answer, and notify their lead when a turn ends. Source: document 001.
package teams

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// Teammates is the recipient that stands for all agents in the sender's team, except the sender and stopped agents.
const Teammates = "*"

// absent is the presence of a team member that has not taken part in the session yet. It is never stored.
const absent orchestrator.PresenceStatus = "absent"

// Member is an agent of a team, with its status in the session.
type Member struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	Lead bool   `json:"lead"`
	// BuiltIn marks the operator and the user, who are not members; Role describes which one.
	BuiltIn          bool                        `json:"built_in,omitempty"`
	Status           orchestrator.PresenceStatus `json:"status"`
	Since            string                      `json:"since,omitempty"` // when it took that status
	PlanModeRequired bool                        `json:"plan_mode_required,omitempty"`
}

// Get returns the members of a session's team, the lead first, followed by the operator and the user, who can also
// receive messages. The team is the group with the session's name, or all agents if there is no such group. Error:
// invalid_params for the name of the session.
func Get(ctx context.Context, l *ledger.Ledger, session string) (members []Member, err error) {
	if session, err = orchestrator.CheckName("session", session); err != nil {
		return nil, err
	}
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		parts, err := partsIn(c, session)
		members = []Member{}
		for i, name := range team(conf, session) {
			m := Member{Name: name, Lead: i == 0, Status: absent}
			if p, ok := parts[name]; ok {
				m.Status, m.Since = p.Status, p.Since
			}
			if a := conf.Agents[name]; a != nil {
				m.Role, m.PlanModeRequired = a.Role, a.PlanModeRequired
			}
			members = append(members, m)
		}
		for _, a := range agents.BuiltInsIn(conf) {
			members = append(members, Member{Name: a.Name, Role: a.Role, BuiltIn: true})
		}
		return err
	})
	return members, err
}

// leadName is the name, or else the role, of a team's lead. Source: document 001.
const leadName = "team-lead"

// team returns the members of a session's team, its lead first. The lead is the member with the name team-lead, or
// else the first member with that role, or else the first member. The others follow in order of joining, or of
// being added.
func team(conf *ledger.Config, session string) []string {
	members, isGroup := conf.Groups[session]
	if !isGroup {
		members = slices.SortedStableFunc(slices.Values(conf.Names), func(a, b string) int {
			return strings.Compare(conf.Agents[a].CreatedAt, conf.Agents[b].CreatedAt)
		})
	}
	lead := slices.Index(members, leadName)
	if lead < 0 {
		lead = slices.IndexFunc(members, func(name string) bool {
			a := conf.Agents[name]
			return a != nil && strings.EqualFold(a.Role, leadName)
		})
	}
	if lead <= 0 {
		return members
	}
	return slices.Concat(members[lead:lead+1], members[:lead], members[lead+1:])
}

// partsIn returns the presence of each agent in a session.
func partsIn(c *store.Conn, session string) (map[string]agents.Presence, error) {
	list, err := agents.PresencesIn(c, session)
	parts := make(map[string]agents.Presence, len(list))
	for _, p := range list {
		parts[p.Agent] = p
	}
	return parts, err
}

// Sent is the result of a send within a team.
type Sent struct {
	orchestrator.Sent
	Stopped []string // stopped teammates: a broadcast omits them, a direct message waits for them
}

// Send sends a message from an agent to a teammate, to all teammates (Teammates), or to those with a role
// (role:ROLE), and records that the sender is working. The draft's SessionID identifies the team. A message to one
// agent may leave the team, so that any sender can be answered. A broadcast takes no IdempotencyKey, ReplyTo or
// HoldUnknown. Errors: those of messages.Send; invalid_params for a group, for the sender itself, and for a
// broadcast without recipients.
func Send(ctx context.Context, l *ledger.Ledger, d orchestrator.Draft) (Sent, error) {
	d, err := checkInTeam(d)
	if err != nil {
		return Sent{}, err
	}
	return writeToTeam(ctx, l, func(t *ledger.Tx) (outcome, error) { return sendToTeam(t, &d) })
}

// outcome is the result of a draft; see messages.Outcome.
type outcome struct {
	sent    Sent
	refused error
}

// writeToTeam runs a send in a transaction. A refused send may leave a dead letter, so it does not undo the
// transaction.
func writeToTeam(ctx context.Context, l *ledger.Ledger, send func(t *ledger.Tx) (outcome, error)) (Sent, error) {
	var out outcome
	err := l.Write(ctx, store.Alone, func(t *ledger.Tx) (err error) {
		out, err = send(t)
		return err
	})
	if err = cmp.Or(err, out.refused); err != nil {
		return Sent{}, err
	}
	return out.sent, nil
}

// checkInTeam checks a draft that may go to all teammates or to those with a role, and returns it in the form in
// which it is stored.
func checkInTeam(d orchestrator.Draft) (_ orchestrator.Draft, err error) {
	if d.Recipient != Teammates {
		if d.Recipient, err = orchestrator.CheckRecipient("recipient", d.Recipient); err != nil {
			return d, err
		}
	}
	if d, err = checkFromTeam(d); err != nil {
		return d, err
	}
	if toSeveralInTeam(&d) && d.ReplyTo != "" {
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "reply_to: an answer must go to one teammate").
			WithHint("Name the teammate who wrote %s", orchestrator.Clip(d.ReplyTo))
	}
	if d.Recipient == d.Sender {
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "%s cannot write to itself", d.Sender).
			WithHint("Name a teammate")
	}
	return d, nil
}

// toSeveralInTeam reports whether a draft goes to all teammates or to those with a role.
func toSeveralInTeam(d *orchestrator.Draft) bool {
	return d.Recipient == Teammates || strings.HasPrefix(d.Recipient, orchestrator.RolePrefix)
}

// checkFromTeam checks everything in a draft except its recipient, and returns it in the form in which it is
// stored.
func checkFromTeam(d orchestrator.Draft) (orchestrator.Draft, error) {
	session, err := orchestrator.CheckName("session", d.SessionID)
	if err != nil {
		return d, err
	}
	if d.Sender, err = orchestrator.CheckName("sender", d.Sender); err != nil {
		return d, err
	}
	d.SessionID = session
	return ledger.CheckContent(d)
}

// sendToTeam stores the rows of a checked draft.
func sendToTeam(t *ledger.Tx, d *orchestrator.Draft) (out outcome, err error) {
	sent := &out.sent
	if toSeveralInTeam(d) {
		sent.Sent, sent.Stopped, err = broadcast(t, d)
	} else if _, isGroup := agents.Members(t.Config(), d.Recipient); isGroup {
		err = orchestrator.Errorf(orchestrator.InvalidParams, "%s is a group, not a teammate", d.Recipient).
			WithHint("To write to the whole team, use `%s`", Teammates)
	} else {
		var direct messages.Outcome
		if direct, err = messages.SendIn(t, d); err == nil && direct.Refused == nil {
			sent.Stopped, err = stopped(t.Conn, d.SessionID, d.Recipient)
		}
		sent.Sent, out.refused = direct.Sent, direct.Refused
	}
	if out.refused != nil || err != nil {
		return out, err // a refused send leaves the sender's presence unchanged
	}
	if sent.Presence == orchestrator.Stopped {
		return out, nil // the sender has just approved its shutdown
	}
	p, err := agents.TakePresence(t, d.SessionID, d.Sender, orchestrator.Working)
	sent.Presence = p.Status
	return out, err
}

// broadcast stores one row for each teammate that has not stopped and has the role that the draft names, if any.
func broadcast(t *ledger.Tx, d *orchestrator.Draft) (sent orchestrator.Sent, stopped []string, err error) {
	conf, err := agents.Acting(t, d.Sender)
	if err != nil {
		return sent, nil, err
	}
	parts, err := partsIn(t.Conn, d.SessionID)
	if err != nil {
		return sent, nil, err
	}
	var recipients []string
	team := team(conf, d.SessionID)
	if d.Recipient != Teammates {
		if team = agents.WithRole(conf, team, d.Recipient); len(team) == 0 {
			return sent, nil, agents.NobodyIn(conf, d.Recipient)
		}
	}
	for _, name := range team {
		switch {
		case name == d.Sender:
		case parts[name].Status == orchestrator.Stopped:
			stopped = append(stopped, name)
		default:
			recipients = append(recipients, name)
		}
	}
	if len(recipients) == 0 {
		e := orchestrator.Errorf(orchestrator.InvalidParams,
			"there are no recipients: the team of session %s has no other members, or all of them have stopped", d.SessionID)
		return sent, stopped,
			e.WithHint("To list the team, run `mailroom team members`. To create it, run `mailroom group set %s`", d.SessionID)
	}
	if err := messages.CheckBacklog(t, conf, recipients, ""); err != nil {
		return sent, stopped, err
	}
	note, err := messages.Inherit(t, conf, d)
	if err != nil {
		return sent, stopped, err
	}
	if sent, err = messages.InsertAll(t, conf, d, recipients, true, false, 0); err == nil {
		t.Heartbeat(d.Sender)
	}
	sent.Note = note
	return sent, stopped, err
}

// stopped returns a list with the agent if it has stopped in a session, and an empty list otherwise.
func stopped(c *store.Conn, session, agent string) ([]string, error) {
	p, _, err := agents.PresenceOf(c, session, agent)
	if err != nil || p.Status != orchestrator.Stopped {
		return nil, err
	}
	return []string{agent}, nil
}

// TakePart records that an agent reads in a session, and adds it to the session if necessary. began reports that
// the agent got work: if it was idle, it becomes working. A stopped agent stays stopped until it sends or joins
// again. Errors: those of agents.Join.
func TakePart(ctx context.Context, l *ledger.Ledger, j agents.Joining, began bool) (err error) {
	if j, err = j.Check(); err != nil {
		return err
	}
	if j.Agent == orchestrator.Operator {
		return nil // the operator takes part in no session
	}
	settled := false
	err = l.Look(ctx, func(c *store.Conn) error {
		p, found, err := agents.PresenceOf(c, j.Session, j.Agent)
		settled = found && !(began && p.Status == orchestrator.Idle) && !p.Unseen(l.Now())
		return err
	})
	if err != nil || settled {
		return err
	}
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if _, err := agents.Acting(t, j.Agent); err != nil {
			return err
		}
		p, found, err := agents.PresenceOf(t.Conn, j.Session, j.Agent)
		if err != nil {
			return err
		}
		if !found || (began && p.Status == orchestrator.Idle) {
			_, err = agents.TakePresence(t, j.Session, j.Agent, orchestrator.Working)
		} else if p.Unseen(t.Clock) {
			p.SeenAt = t.Now
			err = agents.StorePresence(t, &p)
		}
		return err
	})
}
