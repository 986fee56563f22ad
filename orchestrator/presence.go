package orchestrator

import (
	"cmp"
	"context"
	"time"

	"mailroom/orchestrator/store"
)

// Presence is the part that an agent takes in a session.
type Presence struct {
	Session     string         `json:"session"`
	Agent       string         `json:"agent"`
	DisplayName string         `json:"display_name,omitempty"` // what it calls itself; "" is its name
	Description string         `json:"description,omitempty"`
	Status      PresenceStatus `json:"status"`
	Since       string         `json:"since"` // when it took that status
	JoinedAt    string         `json:"joined_at"`

	seenAt string // when it last took part, to the day
}

// Joining says how an agent joins a session. A nil field leaves what is there.
type Joining struct {
	Session, Agent string
	DisplayName    *string
	Description    *string
	Register       bool // the agent proved its identity: add it if nobody knows it yet
}

// Join makes an agent part of a session, or brings up to date what is known of it there. A stopped agent is working
// again. Errors: invalid_params; unknown_sender for an agent that nobody knows.
func (r *Router) Join(ctx context.Context, j Joining) (p Presence, err error) {
	if j, err = j.check(); err != nil {
		return p, err
	}
	err = r.write(ctx, func(t *tx) error {
		p, err = t.admitted(j)
		return err
	})
	return p, err
}

// check brings the names into the form in which they are stored.
func (j Joining) check() (_ Joining, err error) {
	if j.Session, err = CheckName("session", j.Session); err == nil {
		j.Agent, err = CheckName("agent", j.Agent)
	}
	return j, err
}

// admitted joins an agent to a session, registering it first if that is allowed. The names must have been checked.
func (t *tx) admitted(j Joining) (Presence, error) {
	conf, err := t.acting(j.Agent, j.Register)
	if err != nil {
		return Presence{}, err
	}
	if IsBuiltIn(j.Agent) {
		return Presence{}, noMember(j.Agent, "session")
	}
	if j.DisplayName != nil {
		present, err := t.presences(j.Session)
		if err != nil {
			return Presence{}, err
		}
		if err := checkDisplayName(&j, conf, present); err != nil {
			return Presence{}, err
		}
	}
	return t.join(j)
}

// acting makes sure that an agent which acts is known, and returns the configuration in which it is. register adds one that
// is not: it proved its identity. A name that was removed comes back with AddAgent only. Error: unknown_sender.
func (t *tx) acting(name string, register bool) (*config, error) {
	if err := CheckActor(name); err != nil && !t.asUser {
		return nil, err
	}
	conf, err := t.config()
	if err != nil || conf.agents[name] != nil {
		return conf, err
	}
	removed, err := t.removedAt(name)
	if err != nil {
		return nil, err
	}
	if removed != "" || !register {
		return nil, t.unknownAgent(UnknownSender, "", name, conf)
	}
	if err := t.traceCreated(); err != nil { // adding may release what was held until now
		return nil, err
	}
	if _, _, err := t.addAgent(AgentUpdate{Name: name, By: name}); err != nil {
		return nil, err
	}
	return t.config()
}

// join is Join for names that were checked and an agent that is known.
func (t *tx) join(j Joining) (Presence, error) {
	p, found, err := t.presenceOf(j.Session, j.Agent)
	if err != nil {
		return p, err
	}
	before := p
	if !found {
		p = Presence{Session: j.Session, Agent: j.Agent, Status: Working, Since: t.now, JoinedAt: t.now}
	}
	set(&p.DisplayName, j.DisplayName)
	set(&p.Description, j.Description)
	if p.Status == Stopped {
		p.Status, p.Since = Working, t.now
	}
	if p.unseen(t.clock) {
		p.seenAt = t.now
	}
	if found && p == before {
		return p, nil
	}
	return p, t.storePresence(&p)
}

// unseen reports whether it is time to note anew that an agent takes part. Retention asks for it to the day.
func (p *Presence) unseen(now time.Time) bool {
	return p.seenAt < stamp(now.Add(-day)) || p.seenAt > stamp(now.Add(day))
}

// takePresence notes what an agent, which is known, does in a session; it joins it if it has not yet.
func (t *tx) takePresence(session, agent string, status PresenceStatus) (Presence, error) {
	if IsBuiltIn(agent) {
		return Presence{}, nil // it takes part in no session
	}
	p, err := t.join(Joining{Session: session, Agent: agent})
	if err != nil || p.Status == status {
		return p, err
	}
	p.Status, p.Since = status, t.now
	return p, t.storePresence(&p)
}

// saidPresence notes what the sender of a draft says that it does.
func (t *tx) saidPresence(d *Draft) error {
	if d.Presence == "" {
		return nil
	}
	_, err := t.takePresence(cmp.Or(d.SessionID, DefaultSession), d.Sender, d.Presence)
	return err
}

func (t *tx) storePresence(p *Presence) error {
	t.traced = true
	if _, err := t.Exec(`
		INSERT INTO presence (`+presenceColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (session_id, agent) DO UPDATE SET display_name = excluded.display_name,
		    description = excluded.description, status = excluded.status, since = excluded.since, seen_at = excluded.seen_at`,
		p.Session, p.Agent, p.DisplayName, p.Description, string(p.Status), p.Since, p.JoinedAt, p.seenAt); err != nil {
		return err
	}
	conf, err := t.config()
	if err != nil {
		return err
	}
	t.wakeStarter(conf, p.Agent)
	return t.heartbeat(p.Agent)
}

const presenceColumns = `session_id, agent, display_name, description, status, since, joined_at, seen_at`

func scanPresence(row store.Row) Presence {
	return Presence{
		Session: row.Text(0), Agent: row.Text(1), DisplayName: row.Text(2), Description: row.Text(3),
		Status: PresenceStatus(row.Text(4)), Since: row.Text(5), JoinedAt: row.Text(6), seenAt: row.Text(7),
	}
}

func (c *Conn) presenceOf(session, agent string) (p Presence, found bool, err error) {
	err = c.query(`SELECT `+presenceColumns+` FROM presence WHERE session_id = ? AND agent = ?`, func(row store.Row) error {
		p, found = scanPresence(row), true
		return nil
	}, session, agent)
	return p, found, err
}

// Presences lists who takes part in a session, in order of joining. Error: invalid_params for the session.
func (r *Router) Presences(ctx context.Context, session string) (list []Presence, err error) {
	if session, err = CheckName("session", session); err != nil {
		return nil, err
	}
	err = r.read(ctx, func(c *Conn) error {
		list, err = c.presences(session)
		return err
	})
	return list, err
}

func (c *Conn) presences(session string) (list []Presence, err error) {
	list = []Presence{}
	err = c.query(`SELECT `+presenceColumns+` FROM presence WHERE session_id = ? ORDER BY joined_at, agent`, func(row store.Row) error {
		list = append(list, scanPresence(row))
		return nil
	}, session)
	return list, err
}

// checkDisplayName refuses a name under which an agent could be taken for another: one with characters that are not seen, with
// letters of several scripts in a word, one that is reserved, or one that looks like another agent's name or like what another is
// called in the session. An agent may be called by its own name.
func checkDisplayName(j *Joining, conf *config, present []Presence) error {
	name := *j.DisplayName
	if err := checkPlain("the display name", name); err != nil || name == "" {
		return err
	}
	look := lookOf(name)
	if look.small == "" {
		return Errorf(InvalidParams, "the display name is blank").WithHint("Choose one that can be seen, or leave it out to be called %s", j.Agent)
	}
	if err := checkScripts(name); err != nil || look.like(j.Agent) {
		return err
	}
	taken := func(as string) error {
		return Errorf(InvalidParams, "%q %s", name, as).WithHint("Choose a name that is not taken for it")
	}
	for _, reserved := range reservedNames {
		if look.like(reserved) {
			return taken("is, or looks like, " + reserved + ", which is reserved")
		}
	}
	for _, other := range conf.names {
		if other != j.Agent && look.like(other) {
			return taken("is, or looks like, the name of another agent, " + other)
		}
	}
	for _, p := range present {
		if p.Agent != j.Agent && p.DisplayName != "" && look.like(p.DisplayName) {
			return taken("is, or looks like, what another agent, " + p.Agent + ", is called in this session")
		}
	}
	return nil
}
