package overview

import (
	"fmt"
	"path/filepath"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// files tells of what ralph watch could not take in, the first few by name.
func (d *doctor) files(c *store.Conn) error {
	const name, shown = "files not taken in", 3
	n, err := c.Number(`SELECT count(*) FROM bridge_problems`)
	if err != nil {
		return err
	}
	list, err := c.Texts(`SELECT path || ': ' || problem FROM bridge_problems ORDER BY path LIMIT +?`, shown)
	if err != nil {
		return err
	}
	switch {
	case n == 0:
		d.add(name, "ok", "none", "")
		return nil
	case n > shown:
		list = append(list, "and "+orchestrator.Plural(int(n)-shown, "other"))
	}
	d.add(name, "problem", fmt.Sprintf("ralph watch found %s that it could not take in. %s", orchestrator.Plural(int(n), "file"), strings.Join(list, "; ")),
		"`mailroom sql 'SELECT path, problem FROM bridge_problems'`")
	return nil
}

// copies tells of what killed backups and restores left: beside the database, and where its backups go.
func (d *doctor) copies(c *store.Conn) error {
	files, err := c.Texts(`
		SELECT json_extract(attributes, '$."` + tracing.AttrDirectory + `"') || '/any' FROM command_trace
		WHERE name = 'backup' AND json_valid(attributes)
		UNION SELECT json_extract(params, '$.file') FROM schedules WHERE command = 'backup' AND json_valid(params)`)
	if err != nil {
		return err
	}
	folders := []string{filepath.Dir(d.ledger.Path())}
	for _, file := range files {
		if filepath.IsAbs(file) {
			folders = append(folders, filepath.Dir(file))
		}
	}
	if check, ok := d.ledger.Store.(store.Checker); ok {
		check.CheckCopies(folders, d.add)
	}
	return nil
}
