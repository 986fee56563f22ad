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

// AgentAddParams say what to add, or to change of a known agent. What is left out stays as it is.
type AgentAddParams struct {
	Name        string             `json:"name" desc:"name of the agent: a letter, then letters, digits, _ or -" check:"agent" arg:"1"`
	Role        *string            `json:"role,omitempty" desc:"what it does, in a few words" check:"max=256"`
	Groups      []string           `json:"group,omitempty" desc:"group to join; may be repeated" check:"agent|group"`
	Deliver     *string            `json:"deliver,omitempty" desc:"transport: inbox, jsonl:PATH, dir:ROOT, exec:COMMAND or webhook:URL" check:"min=1,max=4112" remote:"inbox|webhook:*"`
	Fallback    *string            `json:"fallback,omitempty" desc:"jsonl:PATH used when the first transport fails; '' removes it" check:"max=4096" remote:""`
	Timeout     *parameter.Seconds `json:"timeout,omitempty" desc:"longest delivery attempt; 0 is the setting delivery.timeout" check:"min=0,max=3600"`
	Batch       *int               `json:"batch,omitempty" desc:"messages of one attempt; 0 is what is usual for the transport, one for exec" check:"min=0,max=1000"`
	Concurrency *int               `json:"concurrency,omitempty" desc:"commands of an exec agent at the same time; 0 is one" check:"min=0,max=64"`
	Private     *bool              `json:"allow_private,omitempty" desc:"its webhook may lead to an address of this machine or of a private network" remote:"false"`
	Secret      *string            `json:"secret,omitempty" desc:"secret that signs the messages to its webhook, whsec_ and base64; an empty text makes a new one" check:"max=128"`
	Start       *string            `json:"start,omitempty" desc:"command that starts a session of the agent for its messages; an empty text removes it" check:"max=4096" remote:""`
	PassEnv     *string            `json:"pass_env,omitempty" desc:"variables of the daemon's environment that its commands get, separated by commas; an empty text is all but passwords and keys of mailroom" check:"max=4096" remote:"-"`
	Host        *string            `json:"host,omitempty" desc:"host that its files and commands are on, in a database on a server; an empty text is any" check:"max=253" remote:""`
	Wake        *string            `json:"wake,omitempty" desc:"what messages may cost its sessions: now, rest or never, or TYPE=WAKE, separated by commas; an empty text is what senders want" check:"max=1024"`
	SilentAfter *parameter.Seconds `json:"silent_after,omitempty" desc:"silence after which it counts as lost; 0 is never" check:"min=0,max=2592000"`
	InboxView   *bool              `json:"inbox_view,omitempty" desc:"make the view NAME_inbox, by which programs read its inbox with plain SQL; false drops it"`
	PlanMode    *bool              `json:"plan_mode,omitempty" desc:"it must have its plans approved"`
}

// AgentResult is one agent.
type AgentResult struct {
	Agent   ledger.Agent `json:"agent"`
	Created bool         `json:"created"`
	Note    string       `json:"note,omitempty"` // that nobody hears of its silence or its failing sessions, if so
}

var agentAddCommand = commands.Define(vocabulary, "agent add", agentAdd)

// agentAdd is idempotent: adding a known agent again updates it.
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
			env.Log.Warn("it could not be looked up who is told of an agent", "agent", agent.Name, "error", err) // it was added
		}
	}
	return r, nil
}

// Text says it in a sentence.
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
		w.Printf("What messages may cost its sessions: %s.\n", strings.ReplaceAll(r.Agent.Wake, ",", ", "))
	}
	if r.Agent.StartCommand != "" {
		w.Printf("While `mailroom serve` or `mailroom ralph watch` runs, its messages start, in %s: %s\n",
			r.Agent.Folder, r.Agent.StartCommand)
	}
	if r.Agent.NewSecret != "" {
		w.Printf("They are signed with %s, which its receiver must know and is not shown again.\n", r.Agent.NewSecret)
	}
	if r.Note != "" {
		w.Printf("Note: %s.\n", r.Note)
	}
}
