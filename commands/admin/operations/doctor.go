package operations

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/overview"
)

// DoctorResult holds what was found in a database.
type DoctorResult struct {
	Database string `json:"database"`
	commands.Examined
}

// DoctorParams selects the checks.
type DoctorParams struct {
	Try   bool `json:"try,omitempty" desc:"send a test message through the transport of each agent, and repair paths of connected hosts"`
	Quick bool `json:"quick,omitempty" desc:"skip the checks that can take a minute because they read every row of a large database"`
}

// doctorCommand defines doctor, which continues after a failed check. Without the parameter try, it only reads. Over
// the network, it repairs no files.
func doctorCommand(looks []Look) commands.Typed[DoctorParams, DoctorResult] {
	return commands.Define(vocabulary, "doctor",
		func(ctx context.Context, env commands.Env, p DoctorParams) (DoctorResult, error) {
			found := append(overview.Doctor(ctx, env.Ledger, overview.DoctorOptions{Try: p.Try, Quick: p.Quick}),
				brokenSchedules(ctx, env)...)
			for _, look := range looks {
				found = append(found, look(ctx, env, p.Try && !env.Caller.Remote && env.Caller.Shell)...)
			}
			return DoctorResult{Database: env.Ledger.Path(), Examined: commands.NewExamined(found)}, nil
		}).With(commands.Traits{LooksOnly: true})
}

// brokenSchedules reports the schedules that no daemon can run. If the schedules cannot be read, it returns nil,
// because the engine's checks report the reason.
func brokenSchedules(ctx context.Context, env commands.Env) (found overview.Findings) {
	list, err := listSchedules(ctx, env)
	if err != nil {
		return nil
	}
	for _, s := range list {
		if s.Problem != "" {
			found.ReportOf("schedule", s.Name, overview.Problem, s.Problem, removesSchedule(s.Name))
		}
	}
	if found == nil {
		found.Report("schedule", overview.Fine, "a daemon can run every schedule", "")
	}
	return found
}

// Text writes one line per check, and below it what to do.
func (r DoctorResult) Text(w *terminal.Text) {
	w.Printf("%s\n", r.Database)
	r.Examined.Text(w)
}
