package orchestrator

import (
	"context"
	"slices"
	"strings"
)

// Teammates is the recipient that stands for everybody in the sender's team but the sender and those that have stopped.
const Teammates = "*"

// The types of the messages by which members of a team ask and answer each other. Source: document 001.
const (
	ShutdownRequest      = string(Shutdown) + "_request"
	ShutdownResponse     = string(Shutdown) + "_response"
	PlanApprovalRequest  = string(PlanApproval) + "_request"
	PlanApprovalResponse = string(PlanApproval) + "_response"
)

// Absent is the presence of a team's member that has not taken part in the session yet. It is stored nowhere.
const Absent PresenceStatus = "absent"

// Member is one agent of a team, and the part that it takes in the session.
type Member struct {
	Name             string         `json:"name"`
	Role             string         `json:"role,omitempty"`
	Lead             bool           `json:"lead"`
	BuiltIn          bool           `json:"built_in,omitempty"` // the operator or the user, who are no members: Role says who it is
	Status           PresenceStatus `json:"status"`
	Since            string         `json:"since,omitempty"` // when it took that status
	PlanModeRequired bool           `json:"plan_mode_required,omitempty"`
}

// Team lists the members of a session's team, the lead first, and behind them the operator and the user, who can be written to.
// A team is the group that has the session's name; without such a group it is everybody known. Error: invalid_params for the
// session.
func (r *Router) Team(ctx context.Context, session string) (members []Member, err error) {
	if session, err = CheckName("session", session); err != nil {
		return nil, err
	}
	err = r.read(ctx, func(c *Conn) error {
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		parts, err := c.partsIn(session)
		members = []Member{}
		for i, name := range conf.team(session) {
			m := Member{Name: name, Lead: i == 0, Status: Absent}
			if p, ok := parts[name]; ok {
				m.Status, m.Since = p.Status, p.Since
			}
			if a := conf.agents[name]; a != nil {
				m.Role, m.PlanModeRequired = a.Role, a.PlanModeRequired
			}
			members = append(members, m)
		}
		for _, a := range conf.builtInAgents() {
			members = append(members, Member{Name: a.Name, Role: a.Role, BuiltIn: true})
		}
		return err
	})
	return members, err
}

// leadName is the name, or else the role, by which an agent is the lead of its team. Source: document 001.
const leadName = "team-lead"

// team names the members of a session's team, its lead first: who has the name team-lead, else who has it as role, else who
// was added first. The others follow in order of joining, or of being added.
func (conf *config) team(session string) []string {
	members, isGroup := conf.groups[session]
	if !isGroup {
		members = slices.SortedStableFunc(slices.Values(conf.names), func(a, b string) int {
			return strings.Compare(conf.agents[a].CreatedAt, conf.agents[b].CreatedAt)
		})
	}
	lead := slices.Index(members, leadName)
	if lead < 0 {
		lead = slices.IndexFunc(members, func(name string) bool {
			a := conf.agents[name]
			return a != nil && strings.EqualFold(a.Role, leadName)
		})
	}
	if lead <= 0 {
		return members
	}
	return slices.Concat(members[lead:lead+1], members[:lead], members[lead+1:])
}

// partsIn returns the part that each agent takes in a session.
func (c *Conn) partsIn(session string) (map[string]Presence, error) {
	list, err := c.presences(session)
	parts := make(map[string]Presence, len(list))
	for _, p := range list {
		parts[p.Agent] = p
	}
	return parts, err
}

// TeamSent is the answer to a message within a team.
type TeamSent struct {
	Sent
	Stopped []string // teammates that have stopped: a broadcast leaves them out, a direct message waits for them
}

// SendToTeam sends a message from one agent of a session to another, to all its Teammates, or to those of a role (role:ROLE),
// and notes that the sender is working. The draft's SessionID is the session; a broadcast takes no IdempotencyKey, ReplyTo or
// HoldUnknown. A direct message reaches everybody known, also outside the team: whoever wrote can be answered. Errors: as Send;
// invalid_params for a group, for the sender itself, and for a broadcast that nobody would get.
func (r *Router) SendToTeam(ctx context.Context, d Draft) (TeamSent, error) {
	d, err := d.checkInTeam()
	if err != nil {
		return TeamSent{}, err
	}
	return r.writeToTeam(ctx, func(t *tx) (TeamSent, error, error) { return t.sendToTeam(&d) })
}

// writeToTeam runs a send whose refusal left a dead letter behind, which must be committed.
func (r *Router) writeToTeam(ctx context.Context, send func(t *tx) (sent TeamSent, refusal, err error)) (sent TeamSent, err error) {
	var refusal error
	err = r.write(ctx, func(t *tx) (err error) {
		sent, refusal, err = send(t)
		return err
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return TeamSent{}, err
	}
	return sent, nil
}

// checkInTeam is check for a draft that may go to all teammates.
func (d Draft) checkInTeam() (_ Draft, err error) {
	if d.Recipient != Teammates {
		if d.Recipient, err = CheckRecipient("recipient", d.Recipient); err != nil {
			return d, err
		}
	}
	if d, err = d.checkFromTeam(); err != nil {
		return d, err
	}
	if d.toSeveralInTeam() && d.ReplyTo != "" {
		return d, Errorf(InvalidParams, "reply_to: an answer goes to one teammate").WithHint("Name the one who wrote %s", Clip(d.ReplyTo))
	}
	if d.Recipient == d.Sender {
		return d, Errorf(InvalidParams, "%s would write to itself", d.Sender).WithHint("Name a teammate")
	}
	return d, nil
}

// toSeveralInTeam tells that a draft goes to all teammates, or to those of a role.
func (d *Draft) toSeveralInTeam() bool {
	return d.Recipient == Teammates || strings.HasPrefix(d.Recipient, RolePrefix)
}

// checkFromTeam is checkInTeam without the recipient.
func (d Draft) checkFromTeam() (Draft, error) {
	session, err := CheckName("session", d.SessionID)
	if err != nil {
		return d, err
	}
	if d.Sender, err = CheckName("sender", d.Sender); err != nil {
		return d, err
	}
	d.SessionID = session
	return d.checkContent()
}

// sendToTeam stores the rows of a draft that was checked. refusal and err are those of send.
func (t *tx) sendToTeam(d *Draft) (sent TeamSent, refusal, err error) {
	conf, err := t.config()
	if err != nil {
		return sent, nil, err
	}
	if d.toSeveralInTeam() {
		sent.Sent, sent.Stopped, err = t.broadcast(d)
	} else if _, isGroup := conf.members(d.Recipient); isGroup {
		err = Errorf(InvalidParams, "%s is a group, no teammate", d.Recipient).WithHint("Write to %s for the whole team", Teammates)
	} else if sent.Sent, refusal, err = t.send(d); refusal == nil && err == nil {
		sent.Stopped, err = t.stopped(d.SessionID, d.Recipient)
	}
	if refusal != nil || err != nil {
		return sent, refusal, err // a refused act leaves the sender's presence as it is
	}
	if sent.Presence == Stopped {
		return sent, nil, nil // it has just approved that
	}
	p, err := t.takePresence(d.SessionID, d.Sender, Working)
	sent.Presence = p.Status
	return sent, nil, err
}

// broadcast stores one row for each teammate that has not stopped, of the role that the draft names, if it does.
func (t *tx) broadcast(d *Draft) (sent Sent, stopped []string, err error) {
	conf, err := t.acting(d.Sender, d.RegisterSender)
	if err != nil {
		return sent, nil, err
	}
	parts, err := t.partsIn(d.SessionID)
	if err != nil {
		return sent, nil, err
	}
	var recipients []string
	team := conf.team(d.SessionID)
	if d.Recipient != Teammates {
		if team = conf.withRole(team, d.Recipient); len(team) == 0 {
			return sent, nil, conf.nobodyIn(d.Recipient)
		}
	}
	for _, name := range team {
		switch {
		case name == d.Sender:
		case parts[name].Status == Stopped:
			stopped = append(stopped, name)
		default:
			recipients = append(recipients, name)
		}
	}
	if len(recipients) == 0 {
		e := Errorf(InvalidParams, "nobody would get it: the team of session %s has no other member that has not stopped", d.SessionID)
		return sent, stopped, e.WithHint("`mailroom team members` lists the team; `mailroom group set %s` makes it", d.SessionID)
	}
	if err := t.checkBacklog(conf, recipients); err != nil {
		return sent, stopped, err
	}
	if sent, err = t.insertAll(conf, d, recipients, true, false, 0); err == nil {
		err = t.heartbeat(d.Sender)
	}
	return sent, stopped, err
}

// stopped returns the agent if it has stopped in a session.
func (c *Conn) stopped(session, agent string) ([]string, error) {
	p, _, err := c.presenceOf(session, agent)
	if err != nil || p.Status != Stopped {
		return nil, err
	}
	return []string{agent}, nil
}

// TakePart notes that an agent reads in a session: it joins the session if it has not yet. began says that it was given
// something to do, so that one that was idle is working again. One that has stopped stays so: only what it says itself
// brings it back. Errors: as Join.
func (r *Router) TakePart(ctx context.Context, j Joining, began bool) (err error) {
	if j, err = j.check(); err != nil {
		return err
	}
	if j.Agent == Operator {
		return nil // it takes part in no session
	}
	settled := false
	err = r.look(ctx, func(c *Conn) error {
		p, found, err := c.presenceOf(j.Session, j.Agent)
		settled = found && !(began && p.Status == Idle) && !p.unseen(r.Now())
		return err
	})
	if err != nil || settled {
		return err
	}
	return r.write(ctx, func(t *tx) error {
		if _, err := t.acting(j.Agent, j.Register); err != nil {
			return err
		}
		p, found, err := t.presenceOf(j.Session, j.Agent)
		if err != nil {
			return err
		}
		if !found || (began && p.Status == Idle) {
			_, err = t.takePresence(j.Session, j.Agent, Working)
		} else if p.unseen(t.clock) {
			p.seenAt = t.now
			err = t.storePresence(&p)
		}
		return err
	})
}
