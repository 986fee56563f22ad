package ledger

import (
	"context"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// maxSilence is the longest SilentAfter that an agent may have.
const maxSilence = 30 * orchestrator.Day

// Agent is a registered participant that can send and receive messages.
type Agent struct {
	Name             string `json:"name"`
	Role             string `json:"role"`
	Deliver          string `json:"deliver"`  // transport and address, such as inbox or jsonl:/path
	Fallback         string `json:"fallback"` // target used when the first transport fails; "" means none
	TimeoutSeconds   int    `json:"timeout_seconds"`
	StartCommand     string `json:"start_command,omitempty"`
	SilentAfter      int    `json:"silent_after_seconds,omitempty"`
	PlanModeRequired bool   `json:"plan_mode_required,omitempty"`
	// number of messages per delivery attempt; 0 means the transport's default
	Batch       int `json:"batch,omitempty"`
	Concurrency int `json:"concurrency,omitempty"` // number of the agent's commands that may run at once; 0 means 1
	// the agent's webhook may address this machine or a private network
	AllowPrivate bool   `json:"allow_private,omitempty"`
	Folder       string `json:"folder,omitempty"` // working directory of the agent's commands
	Host         string `json:"host,omitempty"`   // host that has the agent's files and commands; "" means any host
	// variables of the daemon's environment that are passed to the agent's commands, see program.CheckPasses
	PassEnv   string   `json:"pass_env,omitempty"`
	Wake      string   `json:"wake,omitempty"`           // limits on session costs, see orchestrator.WakeRules
	Disabled  string   `json:"disabled,omitempty"`       // when and why the transport was disabled
	NewSecret string   `json:"webhook_secret,omitempty"` // created by this update, and not returned again
	Groups    []string `json:"groups"`
	// the operator or the user: not an agent, and always present; Role describes it
	BuiltIn      bool   `json:"built_in,omitempty"`
	RegisteredBy string `json:"registered_by,omitempty"`
	CreatedAt    string `json:"created_at"`
	UpdatedAt    string `json:"updated_at"`

	withheld  bool // the transport leads out of an untrusted database
	away      bool // the agent's files and commands are on another host
	elsewhere bool // only another host delivers to the agent
}

// Away reports whether the agent's files and commands are on another host. That host starts the agent's sessions.
func (a *Agent) Away() bool { return a.away }

// Elsewhere reports whether only another host delivers to the agent.
func (a *Agent) Elsewhere() bool { return a.elsewhere }

// Withheld reports whether delivery to the agent is suspended because its transport leads out of a database that is
// not trusted.
func (a *Agent) Withheld() bool { return a.withheld }

// Waits reports whether the agent's messages cannot be delivered here at present, because its transport is withheld,
// on another host or disabled.
func (a *Agent) Waits() bool { return a.withheld || a.elsewhere || a.KeptBack() }

// DisabledSince returns the time at which the agent's transport was disabled and the reason. Both are "" if the
// transport is enabled.
func (a *Agent) DisabledSince() (at, why string) {
	at, why, _ = strings.Cut(a.Disabled, " ")
	return at, strings.TrimLeft(why, "(: ")
}

// KeptBack reports whether the agent's messages wait because its transport is disabled and no fallback takes them.
// The fallback of an inbox takes only messages that the inbox refuses.
func (a *Agent) KeptBack() bool {
	return a.Disabled != "" && (a.Fallback == "" || strings.HasPrefix(a.Deliver+":", "inbox:"))
}

// AgentColumns lists the columns that scanAgent reads, in order.
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

// within returns n if n is between 0 and most, and 0 otherwise. A value out of bounds was written by hand; 0 selects
// the default.
func within(most, n int64) int {
	if n < 0 || n > most {
		return 0
	}
	return int(n)
}

// WakeRules returns the limits on what messages may cost the agent's sessions. Rules that cannot be parsed, because
// somebody wrote them by hand, are ignored.
func (a *Agent) WakeRules() orchestrator.WakeRules {
	rules, _ := orchestrator.ParseWakeRules(a.Wake)
	return rules
}

// Timeout returns the time limit of one delivery attempt to the agent.
func (a *Agent) Timeout(s *Settings) time.Duration {
	if a.TimeoutSeconds > 0 {
		return time.Duration(a.TimeoutSeconds) * time.Second
	}
	return s.deliveryTimeout
}

// addBuiltIns adds the operator and the user, who are always present although they are not agents.
func (conf *Config) addBuiltIns() {
	conf.Agents[orchestrator.Operator] = &Agent{Name: orchestrator.Operator, Deliver: "inbox"}
	conf.Agents[orchestrator.User] = &Agent{Name: orchestrator.User, Deliver: "person:", TimeoutSeconds: 30}
	for name, who := range orchestrator.BuiltIns {
		conf.Agents[name].BuiltIn, conf.Agents[name].Role = true, who
	}
}

// Heartbeat records that an agent with a SilentAfter limit is alive. The heartbeat is stored once, at the end of the
// request.
func (t *Tx) Heartbeat(name string) {
	if a := t.Config().Agents[name]; a != nil && a.SilentAfter > 0 && !slices.Contains(t.heartbeats, name) {
		t.heartbeats = append(t.heartbeats, name)
	}
}

// storeHeartbeats stores the heartbeats of this request. Call it after all other changes of the request, because the
// time at which an agent's silence is reported depends on the agent's stored activity.
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

// WithIdentity returns a context whose caller has proved to be the agent with the given name. The agent need not be
// registered yet: the caller's first action in its name adds it. The caller may answer only messages that the agent
// has sent or received. An empty name proves nothing: the caller is then an administrator or the engine itself.
func WithIdentity(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, identityKey{}, orchestrator.FoldName(name))
}

// Proved reports whether the caller has proved to be the named agent.
func Proved(ctx context.Context, name string) bool {
	proved, _ := ctx.Value(identityKey{}).(string)
	return proved != "" && proved == name
}

// Proved reports whether the caller of the transaction has proved to be the named agent.
func (t *Tx) Proved(name string) bool { return Proved(t.Ctx, name) }
