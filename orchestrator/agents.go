package orchestrator

import (
	"context"
	"database/sql/driver"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"mailroom/tracing"
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
	Batch            int      `json:"batch,omitempty"`         // messages of one attempt; 0: what is usual for the transport
	Concurrency      int      `json:"concurrency,omitempty"`   // of its commands at the same time; 0: one
	AllowPrivate     bool     `json:"allow_private,omitempty"` // its webhook may lead into this machine or a private network
	Folder           string   `json:"folder,omitempty"`        // where its commands run
	Disabled         string   `json:"disabled,omitempty"`      // why its transport is not used any more
	Groups           []string `json:"groups"`
	RegisteredBy     string   `json:"registered_by,omitempty"`
	CreatedAt        string   `json:"created_at"`
	UpdatedAt        string   `json:"updated_at"`
}

const agentColumns = `name, role, deliver, fallback, timeout_seconds, start_command, silent_after_seconds,
	plan_mode_required, registered_by, created_at, updated_at, batch, concurrency, allow_private, folder, disabled`

func scanAgent(row []driver.Value) *Agent {
	return &Agent{
		Name: asText(row[0]), Role: asText(row[1]), Deliver: asText(row[2]), Fallback: asText(row[3]),
		TimeoutSeconds: int(asInt(row[4])), StartCommand: asText(row[5]), SilentAfter: int(asInt(row[6])),
		PlanModeRequired: asInt(row[7]) != 0, RegisteredBy: asText(row[8]), CreatedAt: asText(row[9]), UpdatedAt: asText(row[10]),
		Batch: int(asInt(row[11])), Concurrency: int(asInt(row[12])), AllowPrivate: asInt(row[13]) != 0, Folder: asText(row[14]),
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

// AgentUpdate says what to add or change. A nil field leaves what is there, and the default of a new agent.
type AgentUpdate struct {
	Name             string
	Role             *string
	Deliver          *string // SCHEME or SCHEME:ADDRESS
	Fallback         *string // jsonl:PATH; "" removes it
	Timeout          *time.Duration
	StartCommand     *string
	SilentAfter      *time.Duration
	PlanModeRequired *bool
	Batch            *int
	Concurrency      *int
	AllowPrivate     *bool
	Secret           *string  // of its webhook, whsec_ and base64; "" makes a new one
	Folder           string   // where its commands are to run, if the update names any; "" is the present one
	Groups           []string // groups to join; they must exist
	By               string   // who asks
}

// AddAgent adds an agent, or updates a known one in what the update names. It makes the agent's inbox view, and releases
// messages that were held for the name. Errors: invalid_params, not_found for a group.
func (r *Router) AddAgent(ctx context.Context, u AgentUpdate) (agent Agent, created bool, err error) {
	if u.Name, err = checkNewName("agent", u.Name); err != nil {
		return Agent{}, false, err
	}
	for _, target := range []*string{u.Deliver, u.Fallback} {
		if target == nil || *target == "" && target == u.Fallback {
			continue
		}
		canonical, err := r.checkDeliver(*target)
		if err != nil {
			return Agent{}, false, err
		}
		*target = canonical
	}
	if u.Fallback != nil && *u.Fallback != "" && !strings.HasPrefix(*u.Fallback, "jsonl:") {
		return Agent{}, false, Errorf(InvalidParams, "fallback %q: a fallback is a file", *u.Fallback).WithHint("Write jsonl:PATH")
	}
	err = r.write(ctx, func(t *tx) error {
		agent, created, err = t.addAgent(u)
		return err
	})
	return agent, created, err
}

// checkDeliver checks the transport and address of an agent and returns them in canonical form.
func (r *Router) checkDeliver(target string) (string, error) {
	scheme, address, has := strings.Cut(target, ":")
	transport := r.transports[scheme]
	if transport == nil {
		return "", Errorf(InvalidParams, "deliver: there is no transport %q", scheme).
			WithHint("Known: %s", strings.Join(r.schemes(), ", "))
	}
	canonical, err := transport.Check(address)
	if err != nil {
		return "", &Error{Code: InvalidParams, Message: fmt.Sprintf("deliver %q", target), Err: err}
	}
	if canonical != "" && r.isOwnFile(canonical) {
		return "", Errorf(InvalidParams, "deliver %q: that file belongs to the database", target).WithHint("Name a file of its own")
	}
	if !has && canonical == "" {
		return scheme, nil
	}
	return scheme + ":" + canonical, nil
}

// isOwnFile reports whether a path is the database or one of the files beside it, by name or by another name. Opening and
// closing any of them would drop SQLite's locks.
func (r *Router) isOwnFile(path string) bool {
	info, statErr := os.Stat(path)
	for _, suffix := range []string{"", "-wal", "-shm", "-journal", "-turnstile", "-bell"} {
		if path == r.path+suffix {
			return true
		}
		if own, err := os.Stat(r.path + suffix); err == nil && statErr == nil && os.SameFile(own, info) {
			return true
		}
	}
	return false
}

func (r *Router) schemes() []string {
	var names []string
	for scheme := range r.transports {
		names = append(names, scheme)
	}
	slices.Sort(names)
	return names
}

func (t *tx) addAgent(u AgentUpdate) (Agent, bool, error) {
	conf, err := t.config()
	if err != nil {
		return Agent{}, false, err
	}
	if _, isGroup := conf.groups[u.Name]; isGroup {
		return Agent{}, false, Errorf(Conflict, "%s is the name of a group", u.Name).WithHint("Choose another name for the agent")
	}
	known := conf.agents[u.Name]
	a := Agent{Name: u.Name, Deliver: "inbox", RegisteredBy: u.By, CreatedAt: t.now}
	if known != nil {
		a = *known
	}
	u.apply(&a)
	a.UpdatedAt = t.now
	if known == nil {
		if _, err := checkNewName("agent", a.Name); err != nil {
			return Agent{}, false, err
		}
		if err := t.createInboxView(a.Name); err != nil {
			return Agent{}, false, err
		}
	}
	if err := t.storeAgent(&a); err != nil {
		return Agent{}, false, err
	}
	for _, group := range slices.Compact(slices.Sorted(slices.Values(u.Groups))) {
		if err := t.joinGroup(conf, group, a.Name); err != nil {
			return Agent{}, false, err
		}
	}
	if known == nil {
		if err := t.releaseHeld(a.Name); err != nil {
			return Agent{}, false, err
		}
	}
	if err := t.configChanged(); err != nil {
		return Agent{}, false, err
	}
	if conf, err = t.config(); err != nil {
		return Agent{}, false, err
	}
	a.Groups = conf.groupsOf(a.Name)
	return a, known == nil, nil
}

func (u *AgentUpdate) apply(a *Agent) {
	set(&a.Role, u.Role)
	set(&a.Deliver, u.Deliver)
	set(&a.Fallback, u.Fallback)
	set(&a.StartCommand, u.StartCommand)
	set(&a.PlanModeRequired, u.PlanModeRequired)
	set(&a.Batch, u.Batch)
	set(&a.Concurrency, u.Concurrency)
	set(&a.AllowPrivate, u.AllowPrivate)
	if u.Timeout != nil {
		a.TimeoutSeconds = int(*u.Timeout / time.Second)
	}
	if u.SilentAfter != nil {
		a.SilentAfter = int(*u.SilentAfter / time.Second)
	}
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func (t *tx) storeAgent(a *Agent) error {
	_, err := t.Exec(`
		INSERT INTO agents (`+agentColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET role = excluded.role, deliver = excluded.deliver, fallback = excluded.fallback,
		    timeout_seconds = excluded.timeout_seconds, start_command = excluded.start_command,
		    silent_after_seconds = excluded.silent_after_seconds, plan_mode_required = excluded.plan_mode_required,
		    updated_at = excluded.updated_at, batch = excluded.batch, concurrency = excluded.concurrency,
		    allow_private = excluded.allow_private, folder = excluded.folder, disabled = excluded.disabled`,
		a.Name, a.Role, a.Deliver, a.Fallback, a.TimeoutSeconds, a.StartCommand, a.SilentAfter, asNumber(a.PlanModeRequired),
		a.RegisteredBy, a.CreatedAt, a.UpdatedAt, a.Batch, a.Concurrency, asNumber(a.AllowPrivate), a.Folder, a.Disabled)
	return err
}

// asNumber is a truth value as the tables have it.
func asNumber(b bool) int {
	if b {
		return 1
	}
	return 0
}

// createInboxView makes the command document's per-agent inbox. The name is checked and can stand in SQL; it is quoted
// for the sake of '-'. The trigger is a convenience that only SQLite has.
func (t *tx) createInboxView(name string) error {
	return t.script(fmt.Sprintf(`
		CREATE VIEW IF NOT EXISTS "%[1]s_inbox" AS
		    SELECT message_id, payload FROM agent_inbox WHERE recipient = '%[1]s';
		CREATE TRIGGER IF NOT EXISTS "%[1]s_inbox_insert" INSTEAD OF INSERT ON "%[1]s_inbox" BEGIN
		    INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('%[1]s', NEW.message_id, NEW.payload)
		    ON CONFLICT (message_id, recipient) DO NOTHING;
		END`, name))
}

// releaseHeld lets messages go that were kept for a name which nobody had yet.
func (t *tx) releaseHeld(name string) error {
	const held = live + ` AND held = 1 AND recipient = ?`
	if err := t.note(selection{held + "7", []any{name}}, tracing.Released, "the agent was added"); err != nil {
		return err
	}
	_, err := t.Exec(`UPDATE agent_message SET held = 0 WHERE `+held, name)
	return err
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

// Agents lists who is known, by name.
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

// Agent returns one known agent. Error: not_found, with the nearest known names.
func (r *Router) Agent(ctx context.Context, name string) (Agent, error) {
	conf, err := r.configuration()
	if err != nil {
		return Agent{}, err
	}
	a := conf.agents[foldName(name)]
	if a == nil {
		return Agent{}, Errorf(NotFound, "there is no agent %q", name).WithHint("%s", didYouMean(name, conf.names))
	}
	found := *a
	found.Groups = conf.groupsOf(a.Name)
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
		if conf.agents[name] == nil {
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
		if err := t.script(`DROP VIEW IF EXISTS "` + name + `_inbox"`); err != nil {
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
	for _, statement := range []string{
		`DELETE FROM agents WHERE name = ?`, `DELETE FROM group_members WHERE agent = ?`, `DELETE FROM presence WHERE agent = ?`,
		`DELETE FROM thread_participants WHERE agent = ?`,
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
