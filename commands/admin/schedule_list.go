package admin

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// ScheduleListResult lists the schedules.
type ScheduleListResult struct {
	Schedules []orchestrator.Schedule `json:"schedules"`
}

var scheduleListCommand = commands.Define(vocabulary, "schedule list", scheduleList)

func scheduleList(ctx context.Context, env commands.Env, _ NoParams) (ScheduleListResult, error) {
	list, err := env.Router.Schedules(ctx)
	return ScheduleListResult{Schedules: list}, err
}

// Text shows a table.
func (r ScheduleListResult) Text(w *commands.Text) {
	rows := make([][]string, len(r.Schedules))
	for i, s := range r.Schedules {
		rows[i] = []string{s.Name, s.Spec, s.Command, string(s.Params), s.LastRunAt}
	}
	w.Table([]string{"SCHEDULE", "SPEC", "COMMAND", "PARAMS", "LAST RUN"}, rows)
	for _, s := range r.Schedules {
		if s.Problem != "" {
			w.Printf("%s: %s. `mailroom schedule remove %s` removes it.\n", s.Name, s.Problem, s.Name)
		}
	}
}
