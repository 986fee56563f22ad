package connect

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/overview"
)

// HostResult is how a host stands in a folder, or else for its user.
type HostResult struct {
	Host     string `json:"host"`
	Program  string `json:"program,omitempty"`  // where it was found; "" is nowhere
	Agent    string `json:"agent,omitempty"`    // as whom it is connected; "" is not
	Database string `json:"database,omitempty"` // with which connect has connected it; "" is nobody, or somebody else
	User     bool   `json:"user,omitempty"`     // it is connected in all folders of the user
	Level    string `json:"level,omitempty"`    // ok, note or problem, as doctor finds it
	Says     string `json:"says,omitempty"`
}

// standing lists the hosts, as they stand in a folder or else for its user.
func standing(ctx context.Context, env commands.Env, at *place) (list []HostResult) {
	for _, h := range known {
		r := HostResult{Host: h.name, Program: pathOf(h.program)}
		for _, place := range []*place{at, {folder: at.folder, home: at.home, user: true}} {
			if r.lookAt(ctx, env, h, place); r.Level != "" {
				break
			}
		}
		list = append(list, r)
	}
	return list
}

// lookAt says how a host stands in a place, if it is connected there.
func (r *HostResult) lookAt(ctx context.Context, env commands.Env, h *host, at *place) {
	w, err := writtenIn(h, at)
	if err != nil {
		r.User, r.Level, r.Says = at.user, overview.Problem, err.Error()
		return
	}
	kept, found := bookOf(env).findTools(h, at)
	if w.agent == "" && (!found || env.Ledger.NoneYet()) {
		return
	}
	r.Agent, r.Database, r.User, r.Level = w.agent, kept.Database, at.user, overview.Note
	switch {
	case !found:
		r.Says = "connected by somebody else, or on another machine: " + h.command(at) + " connects it here"
		return
	case w.database != "" && !isThere(w.database):
		r.Level, r.Says = overview.Problem, noDatabase+w.database+"; "+h.command(at)+" connects it with "+env.Ledger.Path()
		return
	case w.agent != "" && w.database != env.Ledger.Path():
		r.Says = "connected with another database, " + w.where() + ": who has this one cannot write to it"
		return
	}
	r.Agent = kept.Agent
	f := (&site{host: h, record: kept, at: at, database: env.Ledger.Path(), book: bookOf(env)}).look(ctx, env, false)
	r.Level, r.Says = f.Level, f.Says
}

// state says in a few words how a host stands.
func (h *HostResult) state() string {
	switch {
	case h.Program == "" && h.Level == "":
		return "not found in PATH"
	case h.Level == "":
		return "not connected here; " + h.Program
	case h.User:
		return "in all folders: " + h.Says
	}
	return h.Says
}
