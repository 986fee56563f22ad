package ledger

import (
	"context"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// maxSilence is the longest limit to an agent's silence.
const maxSilence = 30 * orchestrator.Day

// Agent is somebody who can send and receive.
type Agent struct {
	Name             string `json:"name"`
	Role             string `json:"role"`
	Deliver          string `json:"deliver"`  // transport and address: inbox, jsonl:/path
	Fallback         string `json:"fallback"` // used when the first transport fails; "" is none
	TimeoutSeconds   int    `json:"timeout_seconds"`
	StartCommand     string `json:"start_command,omitempty"`
	SilentAfter      int    `json:"silent_after_seconds,omitempty"`
	PlanModeRequired bool   `json:"plan_mode_required,omitempty"`
	// messages of one attempt; 0: what is usual for the transport
	Batch       int `json:"batch,omitempty"`
	Concurrency int `json:"concurrency,omitempty"` // of its commands at the same time; 0: one
	// its webhook may lead into this machine or a private network
	AllowPrivate bool   `json:"allow_private,omitempty"`
	Folder       string `json:"folder,omitempty"` // where its commands run
	Host         string `json:"host,omitempty"`   // whose its files and commands are; "" is any
	// variables of the daemon's environment that its commands get, see program.CheckPasses
	PassEnv   string   `json:"pass_env,omitempty"`
	Wake      string   `json:"wake,omitempty"`           // what messages may cost its sessions, see orchestrator.WakeRules
	Disabled  string   `json:"disabled,omitempty"`       // since when and why its transport is not used any more
	NewSecret string   `json:"webhook_secret,omitempty"` // made by this update, and shown nowhere else
	Groups    []string `json:"groups"`
	// the operator or the user: no agent, and always there; Role says who it is
	BuiltIn      bool   `json:"built_in,omitempty"`
	RegisteredBy string `json:"registered_by,omitempty"`
	CreatedAt    string `json:"created_at"`
	UpdatedAt    string `json:"updated_at"`

	withheld  bool // its transport leads out of a database that is not trusted
	away      bool // its files and commands are on another host
	elsewhere bool // its messages are delivered there
}

// Away reports whether the files and commands of the agent are on another host, which starts its sessions.
func (a *Agent) Away() bool { return a.away }

// Elsewhere reports whether only another host delivers to the agent.
func (a *Agent) Elsewhere() bool { return a.elsewhere }

// Withheld reports whether nothing may be done where the agent's messages go, since the database that says so is not
// trusted.
func (a *Agent) Withheld() bool { return a.withheld }

// Waits reports whether the agent's messages cannot be delivered here for now: its transport is withheld, on another
// host or disabled.
func (a *Agent) Waits() bool { return a.withheld || a.elsewhere || a.KeptBack() }

// DisabledSince returns since when and why the agent's transport is disabled; "" if it is not.
func (a *Agent) DisabledSince() (at, why string) {
	at, why, _ = strings.Cut(a.Disabled, " ")
	return at, strings.TrimLeft(why, "(: ")
}

// KeptBack reports whether the agent's messages wait because its transport is disabled and no fallback takes them. The
// fallback of an inbox takes only what the inbox refuses.
func (a *Agent) KeptBack() bool {
	return a.Disabled != "" && (a.Fallback == "" || strings.HasPrefix(a.Deliver+":", "inbox:"))
}

// AgentColumns are what scanAgent reads, in its order.
const AgentColumns = `name, role, deliver, fallback, timeout_seconds, start_command, silent_after_seconds,
	plan_mode_required, registered_by, created_at, updated_at, batch, concurrency, allow_private, folder, disabled, host, pass_env, wake`

func scanAgent(row store.Row) *Agent {
	return &Agent{
		Name: row.Text(0), Role: row.Text(1), Deliver: row.Text(2), Fallback: row.Text(3),
		TimeoutSeconds: within(3600, row.Int(4)), StartCommand: row.Text(5),
		SilentAfter:      within(int64(maxSilence/time.Second), row.Int(6)),
		PlanModeRequired: row.Int(7) != 0, RegisteredBy: row.Text(8), CreatedAt: row.Text(9), UpdatedAt: row.Text(10),
		Batch: within(1000, row.Int(11)), Concurrency: within(64, row.Int(12)), AllowPrivate: row.Int(13) == 1,
		Folder:   row.Text(14),
		Disabled: row.Text(15), Host: row.Text(16), PassEnv: row.Text(17), Wake: row.Text(18),
	}
}

// within returns a number up to a bound; 0, which stands for what is usual, in place of another, which somebody wrote
// by hand.
func within(most, n int64) int {
	if n < 0 || n > most {
		return 0
	}
	return int(n)
}

// WakeRules returns what messages may cost the agent's sessions. Rules that somebody wrote by hand and that are none
// count for nothing.
func (a *Agent) WakeRules() orchestrator.WakeRules {
	rules, _ := orchestrator.ParseWakeRules(a.Wake)
	return rules
}

// Timeout is how long one delivery attempt to the agent may take.
func (a *Agent) Timeout(s *Settings) time.Duration {
	if a.TimeoutSeconds > 0 {
		return time.Duration(a.TimeoutSeconds) * time.Second
	}
	return s.deliveryTimeout
}

// addBuiltIns adds those who are always there though they are no agents: the operator and the user.
func (conf *Config) addBuiltIns() {
	conf.Agents[orchestrator.Operator] = &Agent{Name: orchestrator.Operator, Deliver: "inbox"}
	conf.Agents[orchestrator.User] = &Agent{Name: orchestrator.User, Deliver: "person:", TimeoutSeconds: 30}
	for name, who := range orchestrator.BuiltIns {
		conf.Agents[name].BuiltIn, conf.Agents[name].Role = true, who
	}
}

// Heartbeat notes that an agent which has a limit to its silence is alive. It is stored once, at the end of the
// request.
func (t *Tx) Heartbeat(name string) {
	if a := t.Config().Agents[name]; a != nil && a.SilentAfter > 0 && !slices.Contains(t.heartbeats, name) {
		t.heartbeats = append(t.heartbeats, name)
	}
}

// storeHeartbeats has the heartbeats of this request stored. The other changes of the request must have been made
// before: when an agent's silence is reported depends on what the agent says that it does.
func (t *Tx) storeHeartbeats() error {
	for _, name := range t.heartbeats {
		for _, p := range t.Ledger.Parts {
			if p.Heard == nil || t.conf.Agents[name] == nil {
				continue
			}
			if err := p.Heard(t, t.conf.Agents[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

type identityKey struct{}

// WithIdentity returns a context whose caller has proved to be the agent of that name. The agent need not be known:
// what the caller does first in its name adds it. The caller may answer only what the agent has sent or got. "" proves
// nothing: the caller is an administrator, or the engine itself.
func WithIdentity(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, identityKey{}, orchestrator.FoldName(name))
}

// Proved reports whether the caller has proved to be the agent of that name.
func Proved(ctx context.Context, name string) bool {
	proved, _ := ctx.Value(identityKey{}).(string)
	return proved != "" && proved == name
}

// Proved reports whether whoever asked for the transaction has proved to be the agent of that name.
func (t *Tx) Proved(name string) bool { return Proved(t.Ctx, name) }
