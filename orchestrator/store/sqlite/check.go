package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite/copies"
)

// CheckPlace looks at the file, its folder and the file system.
func (s *Store) CheckPlace(report store.Report) {
	s.checkFile(report)
	s.checkFileSystem(report)
}

func (d *dbFile) checkFile(report store.Report) {
	info, err := os.Stat(d.path)
	if d.gone() {
		err := d.noDatabase()
		report("file", "problem", err.Message, err.Hint)
		return
	}
	if err != nil || d.missing() {
		report("file", "note", "there is no database at "+d.path+" yet",
			"`mailroom init` makes one for the project in this folder, `mailroom connect HOST` or `mailroom serve` the one that is to be there")
		return
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		report("permissions", "note", fmt.Sprintf("others on this machine can reach the database (mode %04o)", mode),
			"chmod 600 "+orchestrator.ShellWord(d.path))
	} else {
		report("permissions", "ok", "only its owner can reach the database", "")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		report("names", "problem",
			fmt.Sprintf("the database has %d names (hard links): what is sent while it is open under two of them is lost", stat.Nlink),
			"Use one name, and remove the other; `mailroom backup` makes copies")
	}
	folder := filepath.Dir(d.path)
	probe, err := os.CreateTemp(folder, ".mailroom-doctor-*")
	if err != nil {
		report("folder", "problem", "nothing can be written beside the database: "+err.Error(),
			"Check the permissions and the space of "+folder)
		return
	}
	probe.Close()
	os.Remove(probe.Name())
	report("folder", "ok", "files can be written beside the database", "")
}

func (d *dbFile) checkFileSystem(report store.Report) {
	kind, network := fileSystemOf(filepath.Dir(d.path))
	switch {
	case network:
		report("file system", "problem", "the database is on a network file system ("+kind+
			"): its locks are not reliable and WAL does not work there",
			"Move it to a local disk and name it with --db")
	case kind != "":
		report("file system", "ok", "local ("+kind+")", "")
	}
}

// lockPatience is how long the doctor waits for the write lock: many times what a writer has it for.
const lockPatience = 2 * time.Second

// CheckLock reports whether nobody can write the database since a program holds its lock, and which one that is.
func (s *Store) CheckLock(ctx context.Context, report store.Report) (locked bool) {
	short, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	looked := errors.New("looked")
	err := s.write(short, func(*store.Transaction) error { return looked })
	if errors.Is(err, looked) {
		report("lock", "ok", "nobody keeps others from writing", "")
	}
	if orchestrator.CodeOf(err) != orchestrator.Busy || ctx.Err() != nil {
		return false // what else keeps from writing, the other checks name
	}
	var who, pids []string
	for _, pid := range lockers(s.path) {
		pids = append(pids, strconv.Itoa(pid))
		who = append(who, fmt.Sprintf("process %d (%q)", pid, processName(pid)))
	}
	says := "nobody could write the database for " + orchestrator.FormatDuration(lockPatience) + ": "
	if pids == nil {
		report("lock", "problem", says+"another program holds its lock", "`fuser -v "+orchestrator.ShellWord(s.path)+
			"` shows who has it open; end the one that is in a transaction")
		return true
	}
	report("lock", "problem", says+"its lock is held by "+strings.Join(who, " and "),
		"`ps -fp "+strings.Join(pids, ",")+
			"` shows what that is. Let it end its transaction, or end it: what it has not committed is undone")
	return true
}

// CheckTables looks at the write-ahead log, and has SQLite look at the whole file if all is set.
func (s *Store) CheckTables(c *store.Conn, all bool, report store.Report) error {
	if all {
		problems, err := c.Texts(`PRAGMA integrity_check(10)`)
		if err != nil {
			return err
		}
		if len(problems) == 1 && problems[0] == "ok" {
			report("integrity", "ok", "SQLite finds the file whole", "")
		} else {
			report("integrity", "problem", strings.Join(problems, "; "), recovery(s.path))
		}
	}
	mode, _, err := c.Text(`PRAGMA journal_mode`)
	if err != nil {
		return err
	}
	if mode != "wal" && mode != "off" && mode != "memory" {
		report("journal", "problem", "the journal mode is "+mode+": readers and writers block each other",
			"sqlite3 "+orchestrator.ShellWord(s.path)+" 'PRAGMA journal_mode=WAL'")
	} else {
		report("journal", "ok", "write-ahead log", "")
	}
	if wal := s.logSize(); wal > 256<<20 {
		report("wal size", "problem",
			fmt.Sprintf("the write-ahead log has %d MB: some reader keeps it from being folded", wal>>20),
			"`mailroom checkpoint --truncate`; if it stays, end the program that holds a read transaction")
	}
	return nil
}

// Recovery says how to get past an error of a damaged file; "" for any other.
func (d *dbFile) Recovery(err error) string {
	if !isDamaged(err) {
		return ""
	}
	return recovery(d.path)
}

// recovery says how to get from a damaged file back to a backup, as commands for a shell. The file is kept with its
// -wal under a name of its own, for what came after the backup.
func recovery(path string) string {
	return fmt.Sprintf("Stop what uses it, then: `mv %[1]s %[1]s.damaged; mv %[1]s-wal %[1]s.damaged-wal; "+
		"mailroom --db %[1]s restore BACKUP`, with the last good backup. Of what came after it, `sqlite3 %[1]s.damaged .recover` saves what can be read", orchestrator.ShellWord(path))
}

// CheckCopies tells of what killed backups and restores left in the folders.
func (s *Store) CheckCopies(folders []string, report store.Report) {
	slices.Sort(folders)
	var left []string
	bytes := int64(0)
	for _, folder := range slices.Compact(folders) {
		_ = copies.EachAbandoned(folder, func(path string) { // a folder that is gone has nothing in it
			left = append(left, orchestrator.ShellWord(path))
			bytes += copies.BytesUnder(path)
		})
	}
	if len(left) == 0 {
		report("copies", "ok", "no killed backup or restore has left one", "")
		return
	}
	report("copies", "problem",
		fmt.Sprintf("a killed backup or restore has left copies of the database, with its messages, %.1f MB: %s",
			float64(bytes)/1e6, strings.Join(left, " ")),
		"rm -r "+strings.Join(left, " ")+" (or make the next backup to the same folder, which removes them)")
}

// Ready reports whether the database can be read and written now: it takes the write lock, and looks at the settings
// and at the last message. Once this process has met a damaged page, it is not ready before the whole file is in order
// again. Errors: busy, unavailable.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.stillDamaged(ctx); err != nil {
		return err
	}
	look := func(t *store.Transaction) error {
		if _, err := t.Number(`SELECT count(*) FROM settings`); err != nil {
			return err
		}
		_, err := t.Number(`SELECT coalesce(max(seq), 0) FROM agent_message`)
		return err
	}
	err := s.write(ctx, look)
	if sqliteCode(err) == sqlite3.ErrFull { // what others wrote in the same transaction had no room
		err = s.write(ctx, look)
	}
	return err
}

// noteDamage remembers an error that says that the file is damaged, and returns it. All reading and writing passes
// here: Read, look, and the outcomes of the writer, through Note.
func (s *Store) noteDamage(err error) error {
	if isDamaged(err) {
		s.damage.Store(&err)
	}
	return err
}

// stillDamaged returns the damage that was met, unless the file has been mended since. It reads the whole file, but
// only after damage was met, while ctx lasts, and once at a time: who asks meanwhile hears of the damage at once.
func (s *Store) stillDamaged(ctx context.Context) error {
	met := s.damage.Load()
	if met == nil {
		return nil
	}
	if !s.checking.CompareAndSwap(false, true) {
		return *met
	}
	defer s.checking.Store(false)
	verdict := make(store.Row, 1)
	err := s.look(ctx, func(c *conn) error {
		rows, err := c.raw.QueryContext(ctx, `PRAGMA quick_check(1)`, nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		return rows.Next(verdict)
	})
	if err != nil || verdict.Text(0) != "ok" {
		return *met
	}
	s.damage.CompareAndSwap(met, nil)
	return nil
}
