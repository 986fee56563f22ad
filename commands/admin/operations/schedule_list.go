package operations

import (
	"context"
	"errors"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/schedules"
)

// ScheduleListResult lists the schedules.
type ScheduleListResult struct {
	Schedules []ListedSchedule `json:"schedules"`
}

// ListedSchedule is a schedule with its next and its last run.
type ListedSchedule struct {
	orchestrator.Schedule
	NextRunAt string         `json:"next_run_at,omitempty"` // with a daemon; "" if it is often or unknown
	LastRun   *schedules.Run `json:"last_run,omitempty"`    // only for administrators
}

var scheduleListCommand = commands.Define(vocabulary, "schedule list", scheduleList)

func scheduleList(ctx context.Context, env commands.Env, _ struct{}) (r ScheduleListResult, err error) {
	list, err := listSchedules(ctx, env)
	if err != nil {
		return r, err
	}
	last := map[string]schedules.Run{}
	if env.Caller.Admin {
		if last, err = schedules.LastRuns(ctx, env.Ledger, list); err != nil {
			return r, err
		}
	}
	for _, s := range list {
		listed := ListedSchedule{Schedule: s}
		if run, ran := last[s.Name]; ran {
			listed.LastRun = &run
		}
		if _, plan, err := env.Catalogue.Runs(&s, env.Ledger.Now()); err == nil {
			if next := commands.NextRun(&s, plan, env.Ledger.Now()); !next.IsZero() {
				listed.NextRunAt = orchestrator.Stamp(next)
			}
		}
		r.Schedules = append(r.Schedules, listed)
	}
	return r, nil
}

// listSchedules lists the schedules. The Problem of a schedule that no daemon can run describes why.
func listSchedules(ctx context.Context, env commands.Env) ([]orchestrator.Schedule, error) {
	list, err := schedules.List(ctx, env.Ledger)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Problem != "" {
			continue
		}
		_, _, err := env.Catalogue.Runs(&list[i], env.Ledger.Now())
		if own, ok := errors.AsType[*orchestrator.Error](err); ok {
			list[i].Problem = "cannot run: " + own.Message // without the hint, which is about calling a command
		} else if err != nil {
			list[i].Problem = "cannot run: " + err.Error()
		}
	}
	return list, nil
}

// removesSchedule returns the advice for a schedule that cannot run.
func removesSchedule(name string) string {
	return "To remove the schedule, run `mailroom schedule remove " + name + "`"
}

// Text writes a table.
func (r ScheduleListResult) Text(w *terminal.Text) {
	terminal.TableOf(w, []string{"SCHEDULE", "SPEC", "COMMAND", "PARAMS", "LAST RUN"}, r.Schedules,
		func(s *ListedSchedule) []string {
			return []string{s.Name, s.Spec, s.Command, string(s.Params), w.When(s.LastRunAt)}
		})
	for _, s := range r.Schedules {
		if s.Problem != "" {
			w.Printf("%s: %s. %s.\n", s.Name, s.Problem, removesSchedule(s.Name))
		}
	}
}

// knownSchedules returns the schedules, as completions for a shell.
func knownSchedules(ctx context.Context, env commands.Env) ([]commands.Known, error) {
	list, err := schedules.List(ctx, env.Ledger)
	return commands.KnownOf(list, func(s *orchestrator.Schedule) commands.Known {
		return commands.Known{Value: s.Name, About: s.Spec + " " + s.Command}
	}), err
}
