package admin

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/overview"
)

// DoctorResult is what was found. Healthy is false when a finding is a problem.
type DoctorResult struct {
	Healthy  bool               `json:"healthy"`
	Database string             `json:"database"`
	Findings []overview.Finding `json:"findings"`
}

// DoctorParams say what to look at.
type DoctorParams struct {
	Try   bool `json:"try,omitempty" desc:"send a test message through the transport of each agent, and mend paths of connected hosts"`
	Quick bool `json:"quick,omitempty" desc:"leave out the checks that read every row of a large database, which may take a minute"`
}

// doctorCommand goes on after a check that fails. Without trials it reads only, and over the network it mends no files.
func doctorCommand(looks []Look) commands.Typed[DoctorParams, DoctorResult] {
	return commands.Define(vocabulary, "doctor", func(ctx context.Context, env commands.Env, p DoctorParams) (DoctorResult, error) {
		examine := overview.Doctor
		if p.Quick {
			examine = overview.QuickDoctor
		}
		r := DoctorResult{Healthy: true, Database: env.Ledger.Path(), Findings: append(examine(ctx, env.Ledger, p.Try), brokenSchedules(ctx, env)...)}
		for _, look := range looks {
			r.Findings = append(r.Findings, look(ctx, env, p.Try && !env.Caller.Remote && env.Caller.Shell)...)
		}
		for _, f := range r.Findings {
			r.Healthy = r.Healthy && f.Level != "problem"
		}
		return r, nil
	}).With(commands.Traits{LooksOnly: true})
}

// ExitStatus is 1 if there is a problem.
func (r DoctorResult) ExitStatus() int {
	if r.Healthy {
		return 0
	}
	return 1
}

// brokenSchedules looks for schedules that no daemon can run. Where they cannot be read, the engine's checks have said why.
func brokenSchedules(ctx context.Context, env commands.Env) (found []overview.Finding) {
	list, err := listSchedules(ctx, env)
	if err != nil {
		return nil
	}
	for _, s := range list {
		if s.Problem != "" {
			found = append(found, overview.Finding{Check: "schedule " + s.Name, Level: "problem", Says: s.Problem, Do: removesSchedule(s.Name)})
		}
	}
	if found == nil {
		found = []overview.Finding{{Check: "schedules", Level: "ok", Says: "a daemon can run each of them"}}
	}
	return found
}

// Text shows one line per check, and below it what to do.
func (r DoctorResult) Text(w *commands.Text) {
	w.Printf("%s\n", r.Database)
	for _, f := range r.Findings {
		w.Finding(f)
	}
}
