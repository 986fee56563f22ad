package operations

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/schedules"
)

// ScheduleRemoveParams names a schedule.
type ScheduleRemoveParams struct {
	Name string `json:"name" desc:"schedule to remove" check:"agent|group" arg:"1"`
}

// ScheduleRemoveResult names the removed schedule.
type ScheduleRemoveResult struct {
	Name string `json:"name"`
}

var scheduleRemoveCommand = commands.Define(vocabulary, "schedule remove", scheduleRemove).Knowing("name",
	knownSchedules)

func scheduleRemove(ctx context.Context, env commands.Env, p ScheduleRemoveParams) (ScheduleRemoveResult, error) {
	return ScheduleRemoveResult(p), schedules.Remove(ctx, env.Ledger, p.Name)
}

// Text writes the result for people.
func (r ScheduleRemoveResult) Text(w *terminal.Text) {
	w.Printf("Removed the schedule %s.\n", r.Name)
}
