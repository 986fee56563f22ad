package connect

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/overview"
)

// HostResult is the state of a host in a folder or, if it is not connected there, for its user.
type HostResult struct {
	Host     string `json:"host"`
	Program  string `json:"program,omitempty"`  // path of the program; "" if not found
	Agent    string `json:"agent,omitempty"`    // agent as which the host is connected; "" if not connected
	Database string `json:"database,omitempty"` // database with which connect connected it; "" if connect did not
	User     bool   `json:"user,omitempty"`     // connected in all folders of the user
	Level    string `json:"level,omitempty"`    // ok, note or problem, as in doctor
	Says     string `json:"says,omitempty"`
}

// standing returns the states of all hosts in a folder or, for those not connected there, for its user.
func standing(ctx context.Context, env commands.Env, at *agenthost.Place, f *Facts) (list []HostResult) {
	for _, h := range agenthost.Hosts {
		r := HostResult{Host: h.Name, Program: commands.PathOf(h.Name)}
		for _, place := range []*agenthost.Place{at, {Folder: at.Folder, Home: at.Home, User: true}} {
			if r.lookAt(ctx, env, h, place, f); r.Level != "" {
				break
			}
		}
		list = append(list, r)
	}
	return list
}

// lookAt sets the state of a host in a place, if the host is connected there.
func (r *HostResult) lookAt(ctx context.Context, env commands.Env, h *agenthost.Host, at *agenthost.Place, f *Facts) {
	w, err := writtenIn(h, at)
	if err != nil {
		r.User, r.Level, r.Says = at.User, overview.Problem, err.Error()
		return
	}
	kept, found := bookOf(env).findTools(h, at)
	if w.agent == "" && (!found || f.None) {
		return
	}
	r.Agent, r.Database, r.User, r.Level = w.agent, kept.Database, at.User, overview.Note
	switch {
	case !found:
		r.Says = "connected by somebody else, or on another machine. To connect the host here, run " + connects(h, at)
		return
	case w.database != "" && !isThere(w.database):
		r.Level, r.Says = overview.Problem, noDatabase+w.database+". To connect the host to the database "+env.Database()+", run "+connects(h, at)
		return
	case w.agent != "" && w.database != env.Database():
		r.Says = "connected to another database: " + w.where() + ". Agents in different databases cannot write to each other"
		return
	}
	r.Agent = kept.Agent
	finding := (&site{Host: h, record: kept, at: at, database: env.Database(), book: bookOf(env)}).look(ctx, env, false)
	r.Level, r.Says = finding.Level, finding.Says
}

// state describes the state of a host in a few words.
func (h *HostResult) state() string {
	switch {
	case h.Program == "" && h.Level == "":
		return "not found in PATH"
	case h.Level == "":
		return "not connected here; installed at " + h.Program
	case h.User:
		return "in all folders: " + h.Says
	}
	return h.Says
}
