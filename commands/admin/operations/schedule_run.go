package operations

import (
	"context"
	"encoding/json"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/schedules"
)

// ScheduleRunParams names a schedule.
type ScheduleRunParams struct {
	Name string `json:"name" desc:"schedule to run now" check:"agent|group" arg:"1"`
}

// ScheduleRunResult holds the answer of the command.
type ScheduleRunResult struct {
	Name    string          `json:"name"`
	Command string          `json:"command"`
	Seconds float64         `json:"seconds"`
	Answer  json.RawMessage `json:"answer"` // in the command's own form

	ran commands.Answer
}

// Settle implements commands.Handed.
func (r ScheduleRunResult) Settle(ctx context.Context, env commands.Env, written bool) error {
	return r.ran.Settle(ctx, env, written)
}

var scheduleRunCommand = commands.Define(vocabulary, "schedule run", scheduleRun).Knowing("name", knownSchedules)

// scheduleRun runs the command as a daemon would, with administrator rights for any caller, because what the command
// does was decided on the machine where the schedule was added. In the trace, the span of the run is a child of this
// command's span, which names the caller.
func scheduleRun(ctx context.Context, env commands.Env, p ScheduleRunParams) (r ScheduleRunResult, err error) {
	s, err := schedules.Get(ctx, env.Ledger, p.Name)
	if err != nil {
		return r, err
	}
	d, _, err := env.Catalogue.Runs(&s, env.Ledger.Now())
	switch {
	case err != nil:
		return r, &orchestrator.Error{Code: orchestrator.Conflict, Message: "the schedule " + s.Name + " cannot run",
			Err: err, Hint: removesSchedule(s.Name)}
	case d.Name == "schedule_run":
		return r, orchestrator.Errorf(orchestrator.Conflict, "the schedule %s runs another schedule", s.Name).
			WithHint("Run the other schedule directly")
	}
	if _, err := schedules.ClaimRun(ctx, env.Ledger, s.Name, env.Ledger.Now()); err != nil {
		return r, err
	}
	env.Caller = commands.Caller{Admin: true}
	started := time.Now()
	r.Name, r.Command = s.Name, d.Name
	answer, err := d.Run(ctx, env, s.Params)
	if err != nil {
		return r, err
	}
	r.Seconds, r.ran = time.Since(started).Seconds(), answer
	r.Answer, err = answer.MarshalJSON()
	return r, err
}

// Text writes a sentence, and then the text of the command's result.
func (r ScheduleRunResult) Text(w *terminal.Text) {
	w.Printf("The schedule %s ran %s in %.1f s.\n", r.Name, r.Command, r.Seconds)
	if told, ok := r.ran.Result.(interface{ Text(*terminal.Text) }); ok {
		told.Text(w)
	}
}
