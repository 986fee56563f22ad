package store

import (
	"time"

	"mailroom/orchestrator"
)

// Seed writes the initial rows of a new database.
func Seed(c *Conn) error {
	now := orchestrator.Stamp(time.Now())
	for _, s := range orchestrator.PresetSchedules {
		if err := c.Run(`INSERT INTO schedules (name, spec, command, params, created_at) VALUES (?, ?, ?, ?, ?)`,
			s.Name, s.Spec, s.Command, string(s.Params), now); err != nil {
			return err
		}
	}
	for _, g := range orchestrator.PresetGroups {
		if err := c.Run(`INSERT INTO groups (name, created_at) VALUES (?, ?)`, g, now); err != nil {
			return err
		}
	}
	return nil
}
