package operations

import (
	"context"
	"encoding/json"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/schedules"
)

// ScheduleAddParams holds what to run, and when.
type ScheduleAddParams struct {
	Name    string          `json:"name" desc:"name of the schedule; an existing schedule is replaced" check:"agent|group" arg:"1"`
	Spec    string          `json:"spec" desc:"cron expression in local time, @every 10m, @daily, or @doorbell" check:"min=1,max=128" arg:"2"`
	Command string          `json:"command" desc:"command to run" check:"min=1,max=128" arg:"3"`
	Params  json.RawMessage `json:"params,omitempty" desc:"parameters of the command as a JSON object" check:"object" default:"{}" arg:"4"`
}

// ScheduleAddResult is the schedule as stored.
type ScheduleAddResult struct {
	Schedule orchestrator.Schedule `json:"schedule"`
}

var scheduleAddCommand = commands.Define(vocabulary, "schedule add", scheduleAdd).
	With(commands.Traits{HereOnly: true}).Knowing("name", knownSchedules).Knowing("command", knownCommands)

// scheduleAdd checks the spec, the command and its parameters before it stores the schedule.
func scheduleAdd(ctx context.Context, env commands.Env, p ScheduleAddParams) (ScheduleAddResult, error) {
	if _, err := commands.ParseSpec(p.Spec, env.Ledger.Now()); err != nil {
		return ScheduleAddResult{}, &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "spec", Err: err,
			Hint:    "Use five fields (minute hour day month weekday), @every 10m, @hourly, @daily, or @doorbell",
			Details: map[string]any{"parameter": "spec"}}
	}
	d, err := env.Catalogue.Lookup(p.Command)
	if err != nil {
		return ScheduleAddResult{}, err
	}
	if err := d.Check(p.Params); err != nil {
		return ScheduleAddResult{},
			&orchestrator.Error{Code: orchestrator.InvalidParams, Message: "params of " + d.Name, Err: err}
	}
	s, err := schedules.Add(ctx, env.Ledger,
		orchestrator.Schedule{Name: p.Name, Spec: p.Spec, Command: d.Name, Params: p.Params})
	return ScheduleAddResult{Schedule: s}, err
}

// Text writes the result for people.
func (r ScheduleAddResult) Text(w *terminal.Text) {
	w.Printf("Added the schedule %s (%s). It runs %s with %s.\n", r.Schedule.Name, r.Schedule.Spec,
		r.Schedule.Command, string(r.Schedule.Params))
}
