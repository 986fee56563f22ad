package orchestrator

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mailroom/tracing"
)

func (d *doctor) file() {
	info, err := os.Stat(d.r.path)
	if d.r.gone() {
		err := d.r.noDatabase()
		d.add("file", "problem", err.Message, err.Hint)
		return
	}
	if err != nil || d.r.missing() {
		d.add("file", "note", "there is no database at "+d.r.path+" yet", "It is made by the first command that needs it, or by `mailroom init`")
		return
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		d.add("permissions", "note", fmt.Sprintf("others on this machine can reach the database (mode %04o)", mode), "chmod 600 "+shellWord(d.r.path))
	} else {
		d.add("permissions", "ok", "only its owner can reach the database", "")
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		d.add("names", "problem", fmt.Sprintf("the database has %d names (hard links): what is sent while it is open under two of them is lost", s.Nlink),
			"Use one name, and remove the other; `mailroom backup` makes copies")
	}
	folder := filepath.Dir(d.r.path)
	probe, err := os.CreateTemp(folder, ".mailroom-doctor-*")
	if err != nil {
		d.add("folder", "problem", "nothing can be written beside the database: "+err.Error(), "Check the permissions and the space of "+folder)
		return
	}
	probe.Close()
	os.Remove(probe.Name())
	d.add("folder", "ok", "files can be written beside the database", "")
}

func (d *doctor) fileSystem() {
	kind, network := fileSystemOf(filepath.Dir(d.r.path))
	switch {
	case network:
		d.add("file system", "problem", "the database is on a network file system ("+kind+"): its locks are not reliable and WAL does not work there",
			"Move it to a local disk and name it with --db")
	case kind != "":
		d.add("file system", "ok", "local ("+kind+")", "")
	}
}

// files tells of what ralph watch could not take in, the first few by name.
func (d *doctor) files(c *conn) error {
	const name, shown = "files not taken in", 3
	n, err := c.number(`SELECT count(*) FROM bridge_problems`)
	if err != nil {
		return err
	}
	list, err := c.texts(`SELECT path || ': ' || problem FROM bridge_problems ORDER BY path LIMIT +?`, shown)
	if err != nil {
		return err
	}
	switch {
	case n == 0:
		d.add(name, "ok", "none", "")
		return nil
	case n > shown:
		list = append(list, "and "+plural(int(n)-shown, "other"))
	}
	d.add(name, "problem", fmt.Sprintf("ralph watch found %s that it could not take in. %s", plural(int(n), "file"), strings.Join(list, "; ")),
		"`mailroom sql 'SELECT path, problem FROM bridge_problems'`")
	return nil
}

// copies tells of what killed backups and restores left: beside the database, and where its backups go.
func (d *doctor) copies(c *conn) error {
	files, err := c.texts(`
		SELECT json_extract(attributes, '$."` + tracing.AttrDirectory + `"') || '/any' FROM command_trace
		WHERE name = 'backup' AND json_valid(attributes)
		UNION SELECT json_extract(params, '$.file') FROM schedules WHERE command = 'backup' AND json_valid(params)`)
	if err != nil {
		return err
	}
	folders := []string{filepath.Dir(d.r.path)}
	for _, file := range files {
		if filepath.IsAbs(file) {
			folders = append(folders, filepath.Dir(file))
		}
	}
	slices.Sort(folders)
	var left []string
	bytes := int64(0)
	for _, folder := range slices.Compact(folders) {
		_ = eachAbandoned(folder, func(path string) { // a folder that is gone has nothing in it
			left = append(left, shellWord(path))
			bytes += bytesUnder(path)
		})
	}
	if len(left) == 0 {
		d.add("copies", "ok", "no killed backup or restore has left one", "")
		return nil
	}
	d.add("copies", "problem", fmt.Sprintf("a killed backup or restore has left copies of the database, with its messages, %.1f MB: %s",
		float64(bytes)/1e6, strings.Join(left, " ")), "rm -r "+strings.Join(left, " ")+" (or make the next backup to the same folder, which removes them)")
	return nil
}
