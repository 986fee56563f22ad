package admin

import (
	"context"
	"errors"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// ScheduleListResult lists the schedules.
type ScheduleListResult struct {
	Schedules []orchestrator.Schedule `json:"schedules"`
}

var scheduleListCommand = commands.Define(vocabulary, "schedule list", scheduleList)

// scheduleList says of a schedule that no daemon can run why that is.
func scheduleList(ctx context.Context, env commands.Env, _ NoParams) (ScheduleListResult, error) {
	list, err := env.Router.Schedules(ctx)
	for i := range list {
		_, _, wrong := env.Catalogue.Runs(&list[i], env.Router.Now())
		if wrong == nil || list[i].Problem != "" {
			continue
		}
		says := wrong.Error()
		var own *orchestrator.Error
		if errors.As(wrong, &own) {
			says = own.Message // without advice on how to call a command
		}
		list[i].Problem = "it does not run: " + says
	}
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
