package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/person"
)

// DoctorParams say what to look at.
type DoctorParams struct {
	Try bool `json:"try,omitempty" desc:"push a test to every device"`
}

// DoctorResult is what was found. Healthy is false when a finding is a problem.
type DoctorResult struct {
	Healthy  bool               `json:"healthy"`
	Findings []overview.Finding `json:"findings"`
}

var doctorCommand = commands.Define(vocabulary, "signal doctor", doctor).With(commands.Traits{LooksOnly: true})

// doctor goes on after a check that fails.
func doctor(ctx context.Context, env commands.Env, p DoctorParams) (DoctorResult, error) {
	r := DoctorResult{Healthy: true, Findings: person.Doctor(ctx, env.Ledger, p.Try)}
	for _, f := range r.Findings {
		r.Healthy = r.Healthy && f.Level != "problem"
	}
	return r, nil
}

// ExitStatus is 1 if there is a problem.
func (r DoctorResult) ExitStatus() int {
	if r.Healthy {
		return 0
	}
	return 1
}

// Text shows one line per check, and below it what to do.
func (r DoctorResult) Text(w *commands.Text) {
	for _, f := range r.Findings {
		w.Finding(f)
	}
}
