// Package check examines a database file for problems that an operator should know: its place, its locks, and
// damage.
package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite/copies"
)

// File checks the file at a path and its folder.
func File(path string, report store.Report) {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		report("file", store.Note, "there is no database at "+path+" yet",
			"To create a database for the project in this folder, run `mailroom init`. To create the database at this path, run `mailroom connect HOST` or `mailroom serve`")
		return
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		report("permissions", store.Note, fmt.Sprintf("other users of this machine can access the database (mode %04o)", mode),
			"Run `chmod 600 "+orchestrator.ShellWord(path)+"`")
	} else {
		report("permissions", store.Fine, "only its owner can access the database", "")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		report("names", store.Problem,
			fmt.Sprintf("the database has %d names (hard links): if it is open under two of these names at the same time, messages that are sent meanwhile are lost", stat.Nlink),
			"Use one name, and remove the others. To make copies, use `mailroom backup`")
	}
	folder := filepath.Dir(path)
	if err := writeBeside(folder); err != nil {
		report("folder", store.Problem, "cannot write files next to the database: "+err.Error(),
			"Check the permissions and the free space of "+folder)
		return
	}
	report("folder", store.Fine, "Mailroom can write files next to the database", "")
}

// writeBeside writes and removes a file in a folder. The file is too large for a disk that is full.
func writeBeside(folder string) error {
	probe, err := os.CreateTemp(folder, ".mailroom-doctor-*")
	if err != nil {
		return err
	}
	defer os.Remove(probe.Name())
	_, err = probe.Write(make([]byte, 1<<17))
	return errors.Join(err, probe.Sync(), probe.Close())
}

// FileSystem checks the file system of a folder.
func FileSystem(folder string, report store.Report) {
	kind, network := fileSystemOf(folder)
	switch {
	case network:
		report("file system", store.Problem, "the database is on a network file system ("+kind+
			"), where locks are not reliable and WAL does not work",
			"Move the database to a local disk, and specify its new path with --db")
	case kind != "":
		report("file system", store.Fine, "local ("+kind+")", "")
	}
}

// Lockers reports that a program holds a lock so that nobody can write the database, and which program that is.
func Lockers(path string, report store.Report) {
	var who, pids []string
	for _, pid := range lockers(path) {
		pids = append(pids, strconv.Itoa(pid))
		who = append(who, fmt.Sprintf("process %d (%q)", pid, processName(pid)))
	}
	says := "no program could write to the database for " + orchestrator.FormatDuration(store.LockPatience) + " because "
	if pids == nil {
		report("lock", store.Problem, says+"another program has locked it", "To list the programs that have the database open, run `fuser -v "+orchestrator.ShellWord(path)+
			"`. End the program that is in a transaction")
		return
	}
	report("lock", store.Problem, says+"it is locked by "+strings.Join(who, " and "),
		"To see what is running, use `ps -fp "+strings.Join(pids, ",")+
			"`. Wait until the transaction ends, or end the process, which undoes its uncommitted changes")
}

// Integrity runs SQLite's check of the whole file.
func Integrity(c *store.Conn, path string, report store.Report) error {
	problems, err := c.Texts(`PRAGMA integrity_check(10)`)
	if err != nil {
		return err
	}
	if len(problems) == 1 && problems[0] == "ok" {
		report("integrity", store.Fine, "SQLite found no damage in the file", "")
	} else {
		report("integrity", store.Problem, strings.Join(problems, "; "), Recovery(path))
	}
	return nil
}

// Log checks the write-ahead log, whose size is given in bytes.
func Log(c *store.Conn, path string, size int64, report store.Report) error {
	mode, _, err := c.Text(`PRAGMA journal_mode`)
	if err != nil {
		return err
	}
	if mode != "wal" && mode != "off" && mode != "memory" {
		report("journal", store.Problem, "the journal mode is "+mode+": readers and writers block each other",
			"Run `sqlite3 "+orchestrator.ShellWord(path)+" 'PRAGMA journal_mode=WAL'`")
	} else {
		report("journal", store.Fine, "write-ahead log", "")
	}
	if size > 256<<20 {
		report("wal size", store.Problem,
			fmt.Sprintf("the write-ahead log takes up %d MB because a reader prevents a full checkpoint", size>>20),
			"Run `mailroom checkpoint --truncate`. If the log stays large, end the program that has a read transaction open")
	}
	return nil
}

// Recovery returns shell commands that replace a damaged file with a backup. They keep the file and its -wal under
// other names, because these may have data that is newer than the backup.
func Recovery(path string) string {
	return fmt.Sprintf("Stop the programs that use the database. Then run `mv %[1]s %[1]s.damaged; mv %[1]s-wal %[1]s.damaged-wal; "+
		"mailroom --db %[1]s restore BACKUP`, with your last good backup in place of BACKUP. To save newer data that can still be read, run `sqlite3 %[1]s.damaged .recover`", orchestrator.ShellWord(path))
}

// Copies reports what killed backups and restores left in the folders.
func Copies(folders []string, report store.Report) {
	slices.Sort(folders)
	var left []string
	bytes := int64(0)
	for _, folder := range slices.Compact(folders) {
		_ = copies.EachAbandoned(folder, func(path string) { // a folder that is gone is empty
			left = append(left, orchestrator.ShellWord(path))
			bytes += copies.BytesUnder(path)
		})
	}
	if len(left) == 0 {
		report("copies", store.Fine, "no copies are left over from interrupted backups or restores", "")
		return
	}
	report("copies", store.Problem,
		fmt.Sprintf("interrupted backups or restores left copies of the database and its messages (%.1f MB): %s",
			float64(bytes)/1e6, strings.Join(left, " ")),
		"To remove the copies, run `rm -r "+strings.Join(left, " ")+"`. The next backup in the same folder also removes them")
}
