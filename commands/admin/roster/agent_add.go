package roster

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
)

// AgentAddParams holds the agent to add, or the changes to an existing one. Parameters left out keep their values.
type AgentAddParams struct {
	Name        string             `json:"name" desc:"name of the agent: a letter followed by letters, digits, _, or -" check:"agent" arg:"1"`
	Role        *string            `json:"role,omitempty" desc:"short description of the agent's work" check:"max=256"`
	Groups      []string           `json:"group,omitempty" desc:"group to join; can be repeated" check:"agent|group"`
	Deliver     *string            `json:"deliver,omitempty" desc:"transport: inbox, jsonl:PATH, dir:ROOT, exec:COMMAND, or webhook:URL" check:"min=1,max=4112" remote:"inbox|webhook:*"`
	Fallback    *string            `json:"fallback,omitempty" desc:"jsonl:PATH to use when the transport fails; '' removes the fallback" check:"max=4096" remote:""`
	Timeout     *parameter.Seconds `json:"timeout,omitempty" desc:"time limit of a delivery attempt; 0 means the setting delivery.timeout" check:"min=0,max=3600"`
	Batch       *int               `json:"batch,omitempty" desc:"maximum number of messages in one attempt; 0 means the default of the transport, which is 1 for exec" check:"min=0,max=1000"`
	Concurrency *int               `json:"concurrency,omitempty" desc:"maximum number of commands that run at the same time for an exec agent; 0 means 1" check:"min=0,max=64"`
	Private     *bool              `json:"allow_private,omitempty" desc:"allow a webhook address on this machine or in a private network" remote:"false"`
	Secret      *string            `json:"secret,omitempty" desc:"secret for signing webhook messages: whsec_ followed by base64; an empty text creates a new secret" check:"max=128"`
	Start       *string            `json:"start,omitempty" desc:"command that starts a session of the agent for its messages; an empty text removes the command" check:"max=4096" remote:""`
	PassEnv     *string            `json:"pass_env,omitempty" desc:"environment variables that its commands get, separated by commas; empty: all except the database password and trace keys" check:"max=4096" remote:"-"`
	Host        *string            `json:"host,omitempty" desc:"host of its files and commands, for a database on a server; an empty text means any host" check:"max=253" remote:""`
	Wake        *string            `json:"wake,omitempty" desc:"wake rules of its sessions: now, rest, never, or TYPE=WAKE, separated by commas; empty: the wake that senders choose" check:"max=1024"`
	SilentAfter *parameter.Seconds `json:"silent_after,omitempty" desc:"time without a sign of life after which the agent counts as lost; 0 means never" check:"min=0,max=2592000"`
	InboxView   *bool              `json:"inbox_view,omitempty" desc:"create the view NAME_inbox, so programs can read the inbox with plain SQL; false drops the view"`
	PlanMode    *bool              `json:"plan_mode,omitempty" desc:"require approval of its plans"`
}

// AgentResult is one agent.
type AgentResult struct {
	Agent   ledger.Agent `json:"agent"`
	Created bool         `json:"created"`
	Note    string       `json:"note,omitempty"` // set if nobody gets reports about its silence or failures
}

var agentAddCommand = commands.Define(vocabulary, "agent add", agentAdd)

// agentAdd is idempotent: adding an existing agent again updates it.
func agentAdd(ctx context.Context, env commands.Env, p AgentAddParams) (AgentResult, error) {
	u := agents.Update{
		Name: p.Name, Role: p.Role, Deliver: p.Deliver, Fallback: p.Fallback, StartCommand: p.Start,
		PlanModeRequired: p.PlanMode, InboxView: p.InboxView,
		Batch: p.Batch, Concurrency: p.Concurrency, AllowPrivate: p.Private, Secret: p.Secret, PassEnv: p.PassEnv, Wake: p.Wake,
		Host: p.Host, Groups: p.Groups, By: env.Caller.Name,
	}
	if p.Timeout != nil {
		u.Timeout = new(p.Timeout.Duration())
	}
	if p.SilentAfter != nil {
		u.SilentAfter = new(p.SilentAfter.Duration())
	}
	agent, created, err := agents.Add(ctx, env.Ledger, u)
	if err != nil {
		return AgentResult{}, err
	}
	r := AgentResult{Agent: agent, Created: created}
	if p.Start != nil || p.SilentAfter != nil {
		if r.Note, err = agents.Untold(ctx, env.Ledger, agent.Name); err != nil {
			env.Log.Warn("cannot look up the agent that gets reports about another agent", "agent", agent.Name, "error", err) // it was added
		}
	}
	return r, nil
}

// Text writes the result for people.
func (r AgentResult) Text(w *terminal.Text) {
	what := "Changed"
	if r.Created {
		what = "Added"
	}
	on := ""
	if r.Agent.Host != "" {
		on = " on " + r.Agent.Host
	}
	w.Printf("%s %s; its messages go to %s%s.\n", what, r.Agent.Name, r.Agent.Deliver, on)
	if r.Agent.Wake != "" {
		w.Printf("Wake rules for its sessions: %s.\n", strings.ReplaceAll(r.Agent.Wake, ",", ", "))
	}
	if r.Agent.StartCommand != "" {
		w.Printf("While `mailroom serve` or `mailroom ralph watch` runs, messages to %s start this command in %s: %s\n",
			r.Agent.Name, r.Agent.Folder, r.Agent.StartCommand)
	}
	if r.Agent.NewSecret != "" {
		w.Printf("Messages are signed with the secret %s. Give the secret to the receiver: Mailroom does not show it again.\n", r.Agent.NewSecret)
	}
	if r.Note != "" {
		w.Printf("Note: %s.\n", r.Note)
	}
}
