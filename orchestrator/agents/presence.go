package agents

import (
	"cmp"
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/confusables"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Presence is an agent's participation in a session, with its last reported status.
type Presence struct {
	Session     string                      `json:"session"`
	Agent       string                      `json:"agent"`
	DisplayName string                      `json:"display_name,omitempty"` // chosen by the agent; "" is its name
	Description string                      `json:"description,omitempty"`
	Status      orchestrator.PresenceStatus `json:"status"`
	Since       string                      `json:"since"` // when it took that status
	JoinedAt    string                      `json:"joined_at"`

	SeenAt string `json:"-"` // when it last took part, to the day
}

// Joining is a request of an agent to join a session. If the agent already takes part, a nil field keeps the stored
// value.
type Joining struct {
	Session, Agent string
	DisplayName    *string
	Description    *string
}

// Join adds an agent to a session, or updates its presence. A stopped agent becomes working. Errors:
// invalid_params; unknown_sender for an agent that does not exist, unless it is the caller, see
// ledger.WithIdentity.
func Join(ctx context.Context, l *ledger.Ledger, j Joining) (p Presence, err error) {
	if j, err = j.Check(); err != nil {
		return p, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		p, err = admitted(t, j)
		return err
	})
	return p, err
}

// Check checks the names of the session and the agent, and returns j with both as they are stored.
func (j Joining) Check() (_ Joining, err error) {
	if j.Session, err = orchestrator.CheckName("session", j.Session); err == nil {
		j.Agent, err = orchestrator.CheckName("agent", j.Agent)
	}
	return j, err
}

// admitted joins an agent to a session, and first registers the agent if that is allowed. The names must have been
// checked.
func admitted(t *ledger.Tx, j Joining) (Presence, error) {
	conf, err := Acting(t, j.Agent)
	if err != nil {
		return Presence{}, err
	}
	if orchestrator.IsBuiltIn(j.Agent) {
		return Presence{}, NoMember(j.Agent, "session")
	}
	if j.DisplayName != nil {
		present, err := PresencesIn(t.Conn, j.Session)
		if err != nil {
			return Presence{}, err
		}
		if err := checkDisplayName(&j, conf, present); err != nil {
			return Presence{}, err
		}
	}
	return join(t, j)
}

// Acting makes sure that the acting agent exists, and returns the configuration that contains it. It adds an
// unknown agent if the caller proved that identity, see ledger.WithIdentity. Only Add restores a removed name.
// Error: unknown_sender.
func Acting(t *ledger.Tx, name string) (*ledger.Config, error) {
	if err := CheckActor(name); err != nil && !t.AsUser {
		return nil, err
	}
	conf := t.Config()
	if conf.Agents[name] != nil {
		return conf, nil
	}
	removed, err := RemovedAt(t.Conn, name)
	if err != nil {
		return nil, err
	}
	if removed != "" || !t.Proved(name) {
		return nil, Unknown(t.Conn, orchestrator.UnknownSender, "", name, conf)
	}
	if err := t.TraceCreated(); err != nil { // adding may release held messages
		return nil, err
	}
	if _, _, err := AddIn(t, Update{Name: name, By: name}); err != nil {
		return nil, err
	}
	return t.Config(), nil
}

// join adds a known agent to a session, or updates its presence. The names must have been checked.
func join(t *ledger.Tx, j Joining) (Presence, error) {
	p, found, err := PresenceOf(t.Conn, j.Session, j.Agent)
	if err != nil {
		return p, err
	}
	before := p
	if !found {
		p = Presence{Session: j.Session, Agent: j.Agent, Status: orchestrator.Working, Since: t.Now, JoinedAt: t.Now}
	}
	set(&p.DisplayName, j.DisplayName)
	set(&p.Description, j.Description)
	if p.Status == orchestrator.Stopped {
		p.Status, p.Since = orchestrator.Working, t.Now
	}
	if p.Unseen(t.Clock) {
		p.SeenAt = t.Now
	}
	if found && p == before {
		return p, nil
	}
	return p, StorePresence(t, &p)
}

// Unseen reports whether SeenAt is more than a day from now and must be updated. Retention needs it only to the
// day, so most calls need not write.
func (p *Presence) Unseen(now time.Time) bool {
	return p.SeenAt < orchestrator.Stamp(now.Add(-orchestrator.Day)) ||
		p.SeenAt > orchestrator.Stamp(now.Add(orchestrator.Day))
}

// TakePresence stores a known agent's status in a session, and first adds the agent to the session if necessary. It
// does nothing for the operator and the user.
func TakePresence(t *ledger.Tx, session, agent string, status orchestrator.PresenceStatus) (Presence, error) {
	if orchestrator.IsBuiltIn(agent) {
		return Presence{}, nil // takes part in no session
	}
	p, err := join(t, Joining{Session: session, Agent: agent})
	if err != nil || p.Status == status {
		return p, err
	}
	p.Status, p.Since = status, t.Now
	return p, StorePresence(t, &p)
}

// NotePresence stores the presence that a draft sets for its sender; see orchestrator.Draft.Presence.
func NotePresence(t *ledger.Tx, d *orchestrator.Draft) error {
	if d.Presence == "" {
		return nil
	}
	_, err := TakePresence(t, cmp.Or(d.SessionID, orchestrator.DefaultSession), d.Sender, d.Presence)
	return err
}

// StorePresence writes a row of presence and records that the agent is alive.
func StorePresence(t *ledger.Tx, p *Presence) error {
	t.KeepSpan()
	if _, err := t.Exec(`
		INSERT INTO presence (`+presenceColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (session_id, agent) DO UPDATE SET display_name = excluded.display_name,
		    description = excluded.description, status = excluded.status, since = excluded.since, seen_at = excluded.seen_at`,
		p.Session, p.Agent, p.DisplayName, p.Description, string(p.Status), p.Since, p.JoinedAt, p.SeenAt); err != nil {
		return err
	}
	WakeStarter(t, p.Agent)
	t.Heartbeat(p.Agent)
	return nil
}

const presenceColumns = `session_id, agent, display_name, description, status, since, joined_at, seen_at`

func scanPresence(row store.Row) Presence {
	return Presence{
		Session: row.Text(0), Agent: row.Text(1), DisplayName: row.Text(2), Description: row.Text(3),
		Status: orchestrator.PresenceStatus(row.Text(4)), Since: row.Text(5), JoinedAt: row.Text(6),
		SeenAt: row.Text(7),
	}
}

// PresenceOf returns the presence of an agent in a session. found is false if the agent takes no part in the
// session.
func PresenceOf(c *store.Conn, session, agent string) (p Presence, found bool, err error) {
	return store.First(c, scanPresence, `SELECT `+presenceColumns+` FROM presence WHERE session_id = ? AND agent = ?`,
		session, agent)
}

// Presences returns the participants of a session, in order of joining. Error: invalid_params for the name of the
// session.
func Presences(ctx context.Context, l *ledger.Ledger, session string) ([]Presence, error) {
	session, err := orchestrator.CheckName("session", session)
	if err != nil {
		return nil, err
	}
	return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]Presence, error) { return PresencesIn(c, session) })
}

// PresencesIn returns the participants of a session, within a transaction. The name must have been checked.
func PresencesIn(c *store.Conn, session string) ([]Presence, error) {
	return store.List(c, scanPresence,
		`SELECT `+presenceColumns+` FROM presence WHERE session_id = ? ORDER BY joined_at, agent`, session)
}

// checkDisplayName returns an error for a display name that could be confused with another: one with invisible
// characters, with letters of several scripts in a word, a reserved name, or one that looks like another agent's
// name or its display name in the session. An agent may use its own name.
func checkDisplayName(j *Joining, conf *ledger.Config, present []Presence) error {
	name := *j.DisplayName
	if err := orchestrator.CheckPlain("the display name", name); err != nil || name == "" {
		return err
	}
	look := confusables.LookOf(name)
	if look.Small == "" {
		return orchestrator.Errorf(orchestrator.InvalidParams, "the display name must contain a visible character").
			WithHint("Choose a visible name. To use the name %s, omit the display name", j.Agent)
	}
	if err := confusables.CheckScripts(name); err != nil || look.Like(j.Agent) {
		return err
	}
	taken := func(as string) error {
		return orchestrator.Errorf(orchestrator.InvalidParams, "%q %s", name, as).
			WithHint("Choose a name that cannot be confused with another name")
	}
	for _, reserved := range orchestrator.ReservedNames {
		if look.Like(reserved) {
			return taken("is, or looks like, the reserved name " + reserved)
		}
	}
	for _, other := range conf.Names {
		if other != j.Agent && look.Like(other) {
			return taken("is, or looks like, the name of another agent, " + other)
		}
	}
	for _, p := range present {
		if p.Agent != j.Agent && p.DisplayName != "" && look.Like(p.DisplayName) {
			return taken("is, or looks like, the display name of another agent in this session, " + p.Agent)
		}
	}
	return nil
}
