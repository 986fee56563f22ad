package connect

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Asked is what connect asks of a database, on this machine or on another.
type Asked struct {
	Host  string `json:"host,omitempty" desc:"agent host" check:"max=64" arg:"1"`
	Agent string `json:"agent,omitempty" desc:"name of the host's agent (default: a free name)" check:"max=64"`
	Plan  bool   `json:"plan,omitempty" desc:"fail if the database is read-only, and report whether the agent is removed when its session ends"`
	Add   bool   `json:"add,omitempty" desc:"add the database and the agent if they are missing"`
}

// Facts is what a database answers.
type Facts struct {
	None      bool   `json:"none"` // there is no database yet
	ID        string `json:"database_id,omitempty"`
	Untrusted string `json:"untrusted,omitempty"` // why the database is not trusted; "" if it is
	Agent     string `json:"agent,omitempty"`
	Known     bool   `json:"known"`              // the agent exists
	Given     bool   `json:"given"`              // the agent is removed with its session; set only with Plan
	Added     bool   `json:"added"`              // this call added the agent
	Seen      string `json:"seen_at,omitempty"`  // when a hook of the host was last called for the agent
	Shown     string `json:"shown_at,omitempty"` // when the agent last got a message
}

var thereCommand = commands.Define(vocabulary, "connect_there", there).With(commands.Traits{HereOnly: true, ForPlaces: true, MakesOne: true})

// ask queries the database of env. An agent name from another machine is checked, because it is written into files.
func ask(ctx context.Context, env commands.Env, p Asked) (f Facts, err error) {
	if env.Distant == nil {
		return there(ctx, env, p)
	}
	if err := env.Distant.Run(ctx, thereCommand.Name, p, &f); err != nil {
		return f, err
	}
	switch {
	case p.Agent != "":
		f.Agent = p.Agent
	case f.Agent != "":
		f.Agent, err = orchestrator.CheckName("agent", f.Agent)
	}
	return f, err
}

// there answers a query of connect.
func there(ctx context.Context, env commands.Env, p Asked) (f Facts, err error) {
	if caller := env.Caller; caller.Remote && !caller.Admin { // a machine that has joined as an agent
		if p.Agent = cmp.Or(p.Agent, caller.Name); p.Agent != caller.Name {
			return f, orchestrator.Errorf(orchestrator.PermissionDenied, "this connection can act only for %s", caller.Name)
		}
	}
	if p.Add {
		if err := env.Ledger.Create(ctx); err != nil {
			return f, err
		}
	}
	if env.Ledger.NoneYet() {
		return Facts{None: true, Agent: cmp.Or(p.Agent, p.Host)}, nil
	}
	conf, err := env.Ledger.Configuration(ctx)
	if err != nil {
		return f, err
	}
	f = Facts{ID: conf.Stored[store.DatabaseID], Untrusted: conf.Untrusted, Agent: p.Agent}
	if p.Plan && f.Untrusted == "" {
		if err := ledger.TakesWrites(ctx, env.Ledger); err != nil {
			return f, err
		}
	}
	if f.Agent == "" && p.Host != "" {
		f.Agent = hosts.FreeName(conf, p.Host)
	}
	f.Known = conf.Agents[f.Agent] != nil
	if p.Add && !f.Known && f.Agent != orchestrator.Auto {
		_, f.Added, err = agents.Add(ctx, env.Ledger, agents.Update{Name: f.Agent})
	}
	if p.Plan && err == nil {
		f.Given, err = hosts.IsGiven(ctx, env.Ledger, f.Agent)
	} else if p.Host != "" && err == nil {
		f.Seen, f.Shown, err = hosts.LastHeard(ctx, env.Ledger, p.Host, f.Agent)
	}
	return f, err
}
