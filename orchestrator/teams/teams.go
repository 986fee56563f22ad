// Package teams lets the agents of a session work as a team. They write to one agent or to all, ask each other to
// shut down or to approve a plan, answer such requests, and notify their lead when a turn ends. Source: document 001.
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

// Teammates is the recipient that stands for the whole team, except the sender and the members that have stopped.
const Teammates = "*"

// absent is the presence of a team member that has not joined the session yet. It is never stored.
const absent orchestrator.PresenceStatus = "absent"

// Member is an agent of a team, with its presence in the session.
type Member struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	Lead bool   `json:"lead"`
	// the agent is the operator or the user, which are no members; Role describes it
	BuiltIn          bool                        `json:"built_in,omitempty"`
	Status           orchestrator.PresenceStatus `json:"status"`
	Since            string                      `json:"since,omitempty"` // when the agent entered the status
	PlanModeRequired bool                        `json:"plan_mode_required,omitempty"`
}

// Get returns the members of a session's team, the lead first, followed by the operator and the user, who can also
// receive messages. The team is the group that has the name of the session. Without such a group, the team is all
// agents. Error: invalid_params for an invalid session name.
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

// leadName is the agent name, or else the role, that marks the lead of a team. Source: document 001.
const leadName = "team-lead"

// team returns the names of the members of a session's team, the lead first. The lead is the agent with the name
// team-lead, or else the first with that role, or else the first that was added. The other members follow in the
// order in which they joined the group or were added.
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

// partsIn returns the presence of each agent in a session, by agent name.
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
	Stopped []string // teammates that have stopped: a broadcast skips them, a direct message waits for them
}

// Send sends a message from an agent to a teammate, to all teammates (Teammates), or to those with a role
// (role:ROLE), and sets the sender's presence to working. The draft's SessionID identifies the team. A message to one
// agent may leave the team, so that any sender can be answered. A broadcast takes no IdempotencyKey, ReplyTo or
// HoldUnknown. Errors: those of messages.Send; invalid_params for a group, for the sender itself, and for a broadcast
// without recipients.
func Send(ctx context.Context, l *ledger.Ledger, d orchestrator.Draft) (Sent, error) {
	d, err := checkInTeam(d)
	if err != nil {
		return Sent{}, err
	}
	return writeToTeam(ctx, l, func(t *ledger.Tx) (outcome, error) { return sendToTeam(t, &d) })
}

// outcome is the result of sending a draft within a team, similar to messages.Outcome.
type outcome struct {
	sent    Sent
	refused error
}

// writeToTeam runs a send in a transaction. A refused send may leave a dead letter behind, so a refusal does not roll
// back the transaction.
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

// checkInTeam checks a draft that may go to all teammates or to those with a role, and returns the draft in its
// stored form.
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

// toSeveralInTeam reports whether a draft goes to all teammates, or to those with a role.
func toSeveralInTeam(d *orchestrator.Draft) bool {
	return d.Recipient == Teammates || strings.HasPrefix(d.Recipient, orchestrator.RolePrefix)
}

// checkFromTeam checks all of a draft except its recipient, and returns the draft in its stored form.
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

// sendToTeam stores the rows of a draft that was checked before.
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
		return out, err // a refused send does not change the sender's presence
	}
	if sent.Presence == orchestrator.Stopped {
		return out, nil // the sender has just approved its own shutdown
	}
	p, err := agents.TakePresence(t, d.SessionID, d.Sender, orchestrator.Working)
	sent.Presence = p.Status
	return out, err
}

// broadcast stores one row for each teammate that has not stopped. If the draft names a role, only teammates with
// that role get one.
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

// stopped returns a list of the agent if it has stopped in a session, and an empty list otherwise.
func stopped(c *store.Conn, session, agent string) ([]string, error) {
	p, _, err := agents.PresenceOf(c, session, agent)
	if err != nil || p.Status != orchestrator.Stopped {
		return nil, err
	}
	return []string{agent}, nil
}

// TakePart records that an agent reads in a session, and adds the agent to the session if it is not there yet. began
// reports that the agent received work: an idle agent becomes working again. An agent that has stopped stays stopped
// until it sends or joins again. Errors: those of agents.Join.
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
