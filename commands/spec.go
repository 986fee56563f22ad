package commands

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"mailroom/orchestrator"
)

// Runs returns the command that a schedule runs, and when; plan is nil for the doorbell. Error: it cannot run.
func (c *Catalogue) Runs(s *orchestrator.Schedule, now time.Time) (d *Definition, plan cron.Schedule, err error) {
	if d, err = c.Lookup(s.Command); err == nil {
		err = d.Check(s.Params)
	}
	if err != nil {
		return nil, nil, err
	}
	if plan, err = ParseSpec(s.Spec, now); err != nil {
		return nil, nil, fmt.Errorf("its spec: %w", err)
	}
	return d, plan, nil
}

// NextRun returns when a schedule with this plan runs next, as far as that is known: the time of one that runs more often than every minute is not
// noted, and nobody knows when a doorbell rings. Otherwise it is the zero time.
func NextRun(s *orchestrator.Schedule, plan cron.Schedule, now time.Time) time.Time {
	every, constant := plan.(cron.ConstantDelaySchedule)
	last, err := time.Parse(time.RFC3339, s.LastRunAt)
	switch {
	case plan == nil || !s.Enabled || constant && err != nil:
		return time.Time{}
	case !constant:
		return plan.Next(now.Local())
	}
	next := last.Add(every.Delay)
	if next.Before(now) {
		return now
	}
	return next
}

// ParseSpec reads the spec of a schedule, nil for the doorbell, and holds it to what the scheduler does with it as
// written. The parser alone panics on a time zone with nothing behind it, rounds a short @every to whole seconds, and
// takes days that no calendar has.
func ParseSpec(spec string, now time.Time) (cron.Schedule, error) {
	if spec == orchestrator.Doorbell {
		return nil, nil
	}
	rest := spec
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		var ok bool
		if _, rest, ok = strings.Cut(spec, " "); !ok {
			return nil, errors.New("nothing follows the time zone")
		}
	}
	plan, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, err
	}
	if every, ok := strings.CutPrefix(strings.TrimSpace(rest), "@every "); ok {
		if d, err := time.ParseDuration(every); err != nil || d < time.Second || d%time.Second != 0 {
			return nil, errors.New("@every takes whole seconds, one at least")
		}
	}
	if plan.Next(now).IsZero() {
		return nil, errors.New("it never comes: no day in the next years is as it says")
	}
	return plan, nil
}
