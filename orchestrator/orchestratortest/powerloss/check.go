package powerloss

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "github.com/mattn/go-sqlite3" // for direct access to the image
	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/transport"
)

// stage is the folder in which images are built and opened. It is the folder of the recording itself, because the
// database identifies the jsonl files by their paths and inodes.
type stage struct {
	load Load
	// held is a folder beside the root. It holds files that an image lacks, so that they keep their inodes.
	held     string
	recorded map[string]os.FileInfo
	backup   []byte // the last backup that was found to be complete
}

// newStage records the jsonl files of the recording, because the database identifies them by their inodes.
func newStage(l Load) (*stage, error) {
	s := &stage{load: l, held: l.Root + ".held", recorded: map[string]os.FileInfo{}}
	if err := os.MkdirAll(s.held, 0o700); err != nil {
		return nil, err
	}
	for _, name := range jsonlFiles {
		// An earlier examination may have moved the file.
		os.Rename(filepath.Join(s.held, name), filepath.Join(l.Root, name))
		info, err := os.Stat(filepath.Join(l.Root, name))
		if err != nil {
			return nil, err
		}
		s.recorded[name] = info
	}
	return s, nil
}

// put gives the folder the content of the disk after a power failure.
func (s *stage) put(image map[string][]byte) error {
	entries, err := os.ReadDir(s.load.Root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(s.load.Root, e.Name())
		info, ierr := e.Info()
		if ierr == nil && s.recorded[e.Name()] != nil && os.SameFile(info, s.recorded[e.Name()]) {
			err = os.Rename(name, filepath.Join(s.held, e.Name()))
		} else {
			err = os.RemoveAll(name)
		}
		if err != nil {
			return err
		}
	}
	names := make([]string, 0, len(image))
	for name := range image {
		names = append(names, name)
	}
	slices.Sort(names) // folders before their files
	for _, name := range names {
		if err := s.place(name, image[name]); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) place(name string, content []byte) error {
	if content == nil {
		return os.MkdirAll(name, 0o700)
	}
	if s.recorded[filepath.Base(name)] != nil {
		if err := os.Rename(filepath.Join(s.held, filepath.Base(name)), name); err != nil {
			return err
		}
	}
	return os.WriteFile(name, content, 0o600)
}

// row is the state of a message in the database.
type row struct {
	copies       int
	status       string
	read         bool
	acknowledged bool
	created      int // the number of created events
	failure      string
	recipient    string
}

// check opens the image with the program's own engine and checks everything that was reported before the power
// failure. It returns the violations, at most ten.
func (s *stage) check(ctx context.Context, t *told) (wrong []string) {
	complain := func(format string, args ...any) {
		if len(wrong) < 10 {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	if _, err := os.Stat(s.load.database()); err != nil && len(t.sent) > 0 {
		complain("the database is gone: %v", err)
		return wrong
	}
	if err := s.recover(ctx); err != nil {
		complain("%v", err)
		return wrong
	}
	rows, err := s.rows()
	if err != nil {
		complain("reading: %v", err)
		return wrong
	}
	for id := range t.sent {
		if r := rows[id]; r.copies != 1 || r.created != 1 {
			complain("acknowledged send %s stands %d times in the table and is created %d times in the trace", id,
				r.copies, r.created)
		}
	}
	for id := range t.refused {
		if rows[id].created != 1 { // clear_old may have deleted the row since, but not the trace
			complain("refused send %s is created %d times in the trace", id, rows[id].created)
		}
	}
	for id := range t.read { // the message may be unread, and is then shown once more
		if rows[id].copies != 1 {
			complain("%s was printed by a wait and stands %d times in the table", id, rows[id].copies)
		}
	}
	for id, r := range rows {
		if r.read && !t.read[id] {
			complain("%s is read and was not printed", id)
		}
	}
	for id := range t.acked {
		if !rows[id].acknowledged {
			complain("%s was acknowledged and is not", id)
		}
	}
	for id := range t.written {
		if rows[id].copies != 1 {
			complain("%s was written to a file and stands %d times in the table", id, rows[id].copies)
		}
	}
	s.checkFiles(rows, t.unsynced, complain)
	for name := range t.backups {
		if err := s.wholeBackup(name); err != nil {
			complain("the backup: %v", err)
		}
	}
	return wrong
}

// recover opens the image, writes, advances the clock past the end of all leases, and delivers everything.
func (s *stage) recover(ctx context.Context) error {
	r, err := router.Open(ctx, ledger.Options{
		Path:       s.load.database(),
		Instance:   "after-power-loss",
		CountEvery: 3,
		Now:        func() time.Time { return time.Now().Add(2 * time.Hour) },
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{},
			"dir": transport.Dir{}},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	defer r.Close()
	if r.NoneYet() { // the power failed before the database was created, or while its file was empty
		if err := r.Create(ctx); err != nil {
			return fmt.Errorf("making: %w", err)
		}
	}
	if _, err := overview.Status(ctx, r.Ledger); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	if wrong, err := ledger.ReadValue(ctx, r.Ledger, ledger.Miscounted); err != nil || len(wrong) > 0 {
		return fmt.Errorf("counting: %v, %w", wrong, err)
	}
	for _, name := range []string{"writer", recipients[0]} {
		if _, err := agents.Get(ctx, r.Ledger, name); err == nil {
			continue
		}
		if _, _, err := agents.Add(ctx, r.Ledger, agents.Update{Name: name}); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	if _, err := messages.Send(ctx, r.Ledger,
		orchestrator.Draft{Sender: "writer", Recipient: recipients[0], Type: "note"}); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	for range 10 {
		if _, err := r.DeliverAll(ctx, delivery.Options{}); err != nil {
			return fmt.Errorf("delivering: %w", err)
		}
		state, err := overview.Status(ctx, r.Ledger)
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		if state.Totals["pending"]+state.Totals["retry"] == 0 {
			break
		}
	}
	return whole(s.load.database())
}

// wholeBackup checks a backup, unless it equals the last complete one.
func (s *stage) wholeBackup(name string) error {
	content, err := os.ReadFile(name)
	if err != nil || bytes.Equal(content, s.backup) {
		return err
	}
	if err := whole(name); err != nil {
		return err
	}
	s.backup = content
	return nil
}

// whole runs SQLite's integrity check on a database.
func whole(name string) error {
	db, err := sql.Open("sqlite3", "file:"+name+"?mode=rw&_busy_timeout=5000")
	if err != nil {
		return err
	}
	defer db.Close()
	var answer string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&answer); err != nil {
		return fmt.Errorf("integrity_check: %w", err)
	}
	if answer != "ok" {
		return fmt.Errorf("integrity_check: %s", answer)
	}
	return nil
}

// rows returns all messages, including archived ones.
func (s *stage) rows() (map[string]row, error) {
	db, err := sql.Open("sqlite3", "file:"+s.load.database()+"?mode=rw&_busy_timeout=5000")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows := map[string]row{}
	err = each(db, `SELECT message_id, count(*) FROM message_trace WHERE event = 'created' GROUP BY message_id`,
		func(list *sql.Rows) error {
			var id string
			var r row
			err := list.Scan(&id, &r.created)
			rows[id] = r
			return err
		})
	if err != nil {
		return nil, err
	}
	return rows, each(db, `
		SELECT message_id, status, recipient, read_at <> '', acknowledged_at <> '', coalesce(error_message, '')
			FROM agent_message
		UNION ALL
		SELECT message_id, status, recipient, read_at <> '', acknowledged_at <> '', coalesce(error_message, '')
		FROM agent_message_archive`, func(list *sql.Rows) error {
		var id string
		var r row
		err := list.Scan(&id, &r.status, &r.recipient, &r.read, &r.acknowledged, &r.failure)
		r.copies, r.created = rows[id].copies+1, rows[id].created
		rows[id] = r
		return err
	})
}

func each(db *sql.DB, query string, do func(list *sql.Rows) error) error {
	list, err := db.Query(query)
	if err != nil {
		return err
	}
	defer list.Close()
	for list.Next() {
		if err := do(list); err != nil {
			return err
		}
	}
	return list.Err()
}

// checkFiles compares the jsonl files and the folder with the table, after everything was delivered.
func (s *stage) checkFiles(rows map[string]row, unsynced map[string]bool, complain func(string, ...any)) {
	lines := map[string]int{}
	for _, name := range jsonlFiles {
		content, err := os.ReadFile(filepath.Join(s.load.Root, name))
		if err != nil && !errors.Is(err, unix.ENOENT) {
			complain("%v", err)
		}
		for line := range strings.Lines(string(content)) {
			if id := idOf([]byte(line)); id != "" {
				lines[id]++
			}
		}
	}
	s.countLetters(lines, complain)
	for id, n := range lines {
		if rows[id].copies != 1 {
			complain("%s stands in a file, and %d times in the table", id, rows[id].copies)
		} else if n > 1 {
			complain("%s stands %d times in its file", id, n)
		}
	}
	for id, r := range rows {
		if r.copies == 0 {
			continue // deleted
		}
		toFile := strings.HasPrefix(r.recipient, "file_") || strings.HasPrefix(r.recipient, "folder_")
		switch {
		case r.status == "failed" && toFile && unsynced[r.recipient] &&
			strings.Contains(r.failure, orchestrator.ErrUndecidable.Error()):
			// The result of the attempt is unknown: the file was empty when the attempt began, and has changed since.
		case r.status == "failed" && r.recipient == "nobody":
		case r.status != "delivered":
			complain("%s to %s is %s: %s", id, r.recipient, r.status, r.failure)
		case toFile && lines[id] != 1:
			complain("%s is delivered and stands %d times in its file", id, lines[id])
		}
	}
}

// countLetters counts the messages in the agent's folder. Each must be complete.
func (s *stage) countLetters(count map[string]int, complain func(string, ...any)) {
	names, err := filepath.Glob(filepath.Join(s.load.Root, letters, recipients[4], "*"))
	if err != nil {
		complain("%v", err)
	}
	for _, name := range names {
		var l struct{ ID string }
		content, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(content, &l)
		}
		if err != nil || l.ID+".json" != filepath.Base(name) {
			complain("%s is no whole message: %v", name, err)
		}
		count[l.ID]++
	}
}
