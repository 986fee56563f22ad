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
	if err != nil {
		return ScheduleListResult{}, err
	}
	for i := range list {
		if list[i].Problem != "" {
			continue
		}
		_, _, err := env.Catalogue.Runs(&list[i], env.Router.Now())
		var own *orchestrator.Error
		switch {
		case errors.As(err, &own):
			list[i].Problem = "it does not run: " + own.Message // without advice on how to call a command
		case err != nil:
			list[i].Problem = "it does not run: " + err.Error()
		}
	}
	return ScheduleListResult{Schedules: list}, nil
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
