package orchestrator

import (
	"context"
	"database/sql/driver"
	"slices"
	"time"
)

// Agent is somebody who can send and receive.
type Agent struct {
	Name             string   `json:"name"`
	Role             string   `json:"role"`
	Deliver          string   `json:"deliver"`  // transport and address: inbox, jsonl:/path
	Fallback         string   `json:"fallback"` // used when the first transport fails; "" is none
	TimeoutSeconds   int      `json:"timeout_seconds"`
	StartCommand     string   `json:"start_command,omitempty"`
	SilentAfter      int      `json:"silent_after_seconds,omitempty"`
	PlanModeRequired bool     `json:"plan_mode_required,omitempty"`
	Batch            int      `json:"batch,omitempty"`          // messages of one attempt; 0: what is usual for the transport
	Concurrency      int      `json:"concurrency,omitempty"`    // of its commands at the same time; 0: one
	AllowPrivate     bool     `json:"allow_private,omitempty"`  // its webhook may lead into this machine or a private network
	Folder           string   `json:"folder,omitempty"`         // where its commands run
	Disabled         string   `json:"disabled,omitempty"`       // since when and why its transport is not used any more
	NewSecret        string   `json:"webhook_secret,omitempty"` // made by this update, and shown nowhere else
	Groups           []string `json:"groups"`
	BuiltIn          bool     `json:"built_in,omitempty"` // the operator or the user: no agent, and always there; Role says who it is
	Note             string   `json:"note,omitempty"`     // what is off about a built-in name
	RegisteredBy     string   `json:"registered_by,omitempty"`
	CreatedAt        string   `json:"created_at"`
	UpdatedAt        string   `json:"updated_at"`

	withheld bool // its transport leads out of a database that is not trusted
}

const agentColumns = `name, role, deliver, fallback, timeout_seconds, start_command, silent_after_seconds,
	plan_mode_required, registered_by, created_at, updated_at, batch, concurrency, allow_private, folder, disabled`

func scanAgent(row []driver.Value) *Agent {
	return &Agent{
		Name: asText(row[0]), Role: asText(row[1]), Deliver: asText(row[2]), Fallback: asText(row[3]),
		TimeoutSeconds: countIn(row[4], 3600), StartCommand: asText(row[5]), SilentAfter: countIn(row[6], int64(MaxSilence/time.Second)),
		PlanModeRequired: asInt(row[7]) != 0, RegisteredBy: asText(row[8]), CreatedAt: asText(row[9]), UpdatedAt: asText(row[10]),
		Batch: countIn(row[11], 1000), Concurrency: countIn(row[12], 64), AllowPrivate: asInt(row[13]) == 1, Folder: asText(row[14]),
		Disabled: asText(row[15]),
	}
}

// timeout is how long one delivery attempt to the agent may take.
func (a *Agent) timeout(s *Settings) time.Duration {
	if a.TimeoutSeconds > 0 {
		return time.Duration(a.TimeoutSeconds) * time.Second
	}
	return s.DeliveryTimeout
}

func (conf *config) groupsOf(agent string) []string {
	groups := []string{}
	for group, members := range conf.groups {
		if slices.Contains(members, agent) {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

// Agents lists the agents that are known, by name. BuiltIns lists who else there is.
func (r *Router) Agents(ctx context.Context) ([]Agent, error) {
	conf, err := r.configuration()
	if err != nil {
		return nil, err
	}
	list := make([]Agent, 0, len(conf.names))
	for _, name := range conf.names {
		a := *conf.agents[name]
		a.Groups = conf.groupsOf(name)
		list = append(list, a)
	}
	return list, nil
}

// Agent returns one known agent, or the operator or the user. Error: not_found, with the nearest known names.
func (r *Router) Agent(ctx context.Context, name string) (Agent, error) {
	conf, err := r.configuration()
	if err != nil {
		return Agent{}, err
	}
	a := conf.agents[foldName(name)]
	if a == nil || a.isDevice() {
		return Agent{}, Errorf(NotFound, "there is no agent %q", name).WithHint("%s", didYouMean(name, conf.names))
	}
	found := *a
	found.Groups, found.Note = conf.groupsOf(a.Name), conf.takenNote(a.Name)
	return found, nil
}

// RemoveAgent forgets an agent, its part in groups, sessions and threads, and its inbox view, and revokes its tokens;
// messages it has sent or received stay. A thread in which nobody takes part any more is closed. While undelivered
// messages wait for it, it is refused with conflict unless deadLetter is set, which fails them. It returns how many it
// failed.
func (r *Router) RemoveAgent(ctx context.Context, name string, deadLetter bool) (failed int64, err error) {
	name = foldName(name)
	err = r.write(ctx, func(t *tx) error {
		failed = 0
		conf, err := t.config()
		if err != nil {
			return err
		}
		if IsBuiltIn(name) {
			return t.giveUpName(conf, name)
		}
		if a := conf.agents[name]; a == nil || a.isDevice() {
			return Errorf(NotFound, "there is no agent %q", name).WithHint("%s", didYouMean(name, conf.names))
		}
		waiting, err := t.number(`SELECT count(*) FROM agent_message WHERE `+live+` AND recipient = ?`, name)
		if err != nil {
			return err
		}
		if waiting > 0 && !deadLetter {
			return Errorf(Conflict, "%s for %s", plural(int(waiting), "undelivered message")+" left", name).
				WithHint("Deliver them first, or turn them into dead letters with --dead-letter")
		}
		if waiting > 0 {
			if failed, err = t.failWaiting(name); err != nil {
				return err
			}
		}
		if err := t.forget(name); err != nil {
			return err
		}
		if _, err := t.revokeTokens(name); err != nil {
			return err
		}
		if err := t.dropInboxView(name); err != nil {
			return err
		}
		return t.configChanged()
	})
	return failed, err
}

// forget removes an agent and its part in groups, sessions and threads. A thread that nobody takes part in any more is
// closed: nobody else could, and its posts would never age. Nobody else can answer what the agent was asked.
func (t *tx) forget(name string) error {
	if _, err := t.Exec(`
		UPDATE threads SET status = 'closed', summary = 'its last participant was removed', closed_at = ?2
		WHERE status = 'open' AND thread_id IN (SELECT thread_id FROM thread_participants WHERE agent = ?1)
		  AND NOT EXISTS (SELECT 1 FROM thread_participants p WHERE p.thread_id = threads.thread_id AND p.agent <> ?1)`, name, t.now); err != nil {
		return err
	}
	if err := t.endReadingLeasesOf(name, "the agent "+name+" was removed; unread again"); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM agents WHERE name = ?`, `DELETE FROM group_members WHERE agent = ?`, `DELETE FROM presence WHERE agent = ?`,
		`DELETE FROM thread_participants WHERE agent = ?`, `DELETE FROM agent_secrets WHERE agent = ?`,
		`DELETE FROM agent_runs WHERE agent = ?`, `DELETE FROM heartbeats WHERE agent = ?`,
		`UPDATE team_requests SET status = 'void' WHERE status = 'open' AND responder = ?`,
	} {
		if _, err := t.Exec(statement, name); err != nil {
			return err
		}
	}
	return nil
}

// failWaiting makes dead letters of everything that waits for an agent, and tells the senders.
func (t *tx) failWaiting(name string) (int64, error) {
	ms, err := t.messages(`SELECT `+messageColumns+` FROM agent_message WHERE `+live+` AND recipient = ? ORDER BY seq`, name)
	if err != nil {
		return 0, err
	}
	for i := range ms {
		if err := t.giveUp(&ms[i], "the agent "+name+" was removed", false); err != nil {
			return 0, err
		}
	}
	return int64(len(ms)), nil
}
