package commands

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"mailroom/orchestrator"
)

// Runs returns the command that a schedule runs, and its plan. The plan is nil for the doorbell, and an Every for
// @every. Runs returns an error if the schedule cannot run.
func (c *Catalogue) Runs(s *orchestrator.Schedule, now time.Time) (d *Definition, plan cron.Schedule, err error) {
	if d, err = c.Lookup(s.Command); err == nil {
		err = d.Check(s.Params)
	}
	if err != nil {
		return nil, nil, err
	}
	if plan, err = ParseSpec(s.Spec, now); err != nil {
		return nil, nil, fmt.Errorf("invalid spec: %w", err)
	}
	if every, ok := plan.(cron.ConstantDelaySchedule); ok {
		from, err := time.Parse(time.RFC3339, s.CreatedAt)
		if err != nil {
			from = time.Unix(0, 0) // another program wrote an invalid time into the row
		}
		plan = Every{from, every.Delay}
	}
	return d, plan, nil
}

// Every is the plan of an `@every` schedule. It is due once in each period counted from the creation of the schedule.
// The schedule therefore also runs where no daemon lives for a whole period, and all daemons agree on the times.
type Every struct {
	From   time.Time
	Period time.Duration
}

// Next returns the first time after the given time at which the plan is due.
func (e Every) Next(after time.Time) time.Time {
	past := after.Sub(e.From) % e.Period
	if past < 0 {
		past += e.Period
	}
	return after.Add(e.Period - past)
}

// IsOften reports whether a plan is due more than once a minute. The runs of such a plan are cheap: every daemon
// makes them, and missed ones are neither recorded nor made up for.
func IsOften(plan cron.Schedule) bool {
	every, ok := plan.(Every)
	return ok && every.Period < time.Minute
}

// NextRun returns when a schedule with this plan runs next. It returns the zero time for a disabled schedule, for a
// plan that is due more than once a minute, and for a doorbell.
func NextRun(s *orchestrator.Schedule, plan cron.Schedule, now time.Time) time.Time {
	if plan == nil || !s.Enabled || IsOften(plan) {
		return time.Time{}
	}
	return plan.Next(now.Local())
}

// ParseSpec parses the spec of a schedule. It returns nil for the doorbell, and an error for a spec that the
// scheduler would not run as written. The cron parser alone panics on a time zone that nothing follows, rounds a
// short @every to whole seconds, and accepts days that do not exist.
func ParseSpec(spec string, now time.Time) (cron.Schedule, error) {
	if spec == orchestrator.Doorbell {
		return nil, nil
	}
	rest := spec
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		var ok bool
		if _, rest, ok = strings.Cut(spec, " "); !ok {
			return nil, errors.New("the time zone must be followed by a schedule")
		}
	}
	plan, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, err
	}
	if every, ok := strings.CutPrefix(strings.TrimSpace(rest), "@every "); ok {
		if d, err := time.ParseDuration(every); err != nil || d < time.Second || d%time.Second != 0 {
			return nil, errors.New("@every must be a whole number of seconds, at least 1")
		}
	}
	if plan.Next(now).IsZero() {
		return nil, errors.New("the schedule never runs, because no day in the next 5 years matches")
	}
	return plan, nil
}
