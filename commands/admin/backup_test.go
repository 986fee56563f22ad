package admin

import (
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"mailroom/commands/admin/inspection"
	"mailroom/commands/admin/operations"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

// load sends from several goroutines and two routers until it is stopped.
type load struct {
	f    *fixture
	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	grown  *sync.Cond
	acked  []string // ids of successful sends
	failed error
}

const senders = 4

// startLoad starts to send from a to b.
func startLoad(f *fixture) *load {
	f.t.Helper()
	l := &load{f: f, stop: make(chan struct{})}
	l.grown = sync.NewCond(&l.mu)
	routers := []*delivery.Engine{f.router, f.open("second", nil)}
	for i := range senders {
		l.wg.Add(1)
		go l.send(routers[i%len(routers)])
	}
	f.t.Cleanup(l.end)
	return l
}

func (l *load) send(r *delivery.Engine) {
	defer l.wg.Done()
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		sent, err := messages.Send(l.f.t.Context(), r.Ledger,
			orchestrator.Draft{Sender: "a", Recipient: "b", Type: "load", Payload: []byte(`{"n":1}`)})
		l.mu.Lock()
		if err != nil {
			l.failed = err
		} else {
			l.acked = append(l.acked, sent.MessageID)
		}
		l.grown.Broadcast()
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// more waits for n further successful sends, and returns the ids of all successful sends.
func (l *load) more(n int) []string {
	l.f.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for want := len(l.acked) + n; len(l.acked) < want && l.failed == nil; {
		l.grown.Wait()
	}
	if l.failed != nil {
		l.f.t.Fatalf("a send failed: %v", l.failed)
	}
	return append([]string(nil), l.acked...)
}

// end stops the load. A second call changes nothing.
func (l *load) end() {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// idsIn opens a database separately, checks that it is intact, and returns the ids of its messages.
func idsIn(t *testing.T, file string) map[string]bool {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+file+"?_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Fatalf("%s is not whole: %s %v", file, verdict, err)
	}
	rows, err := db.Query("SELECT message_id FROM agent_message")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ids := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func newPair(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, nil, nil)
	ask[any](f, "agent_add", `{"name":"a"}`)
	ask[any](f, "agent_add", `{"name":"b"}`)
	return f
}

// TestBackupUnderLoad checks that a copy made while others send is intact, and contains every message whose send was
// acknowledged before the backup began, with its trace.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	f := newPair(t)
	l := startLoad(f)
	for i := range 3 {
		before := l.more(40)
		file := filepath.Join(t.TempDir(), "copy.db")
		b := ask[operations.BackupResult](f, "backup", `{"file":"`+file+`"}`)
		ids := idsIn(t, file)
		for _, id := range before {
			if !ids[id] {
				t.Fatalf("backup %d lacks %s, which was acknowledged before it began", i, id)
			}
		}
		if int64(len(ids)) != b.Messages {
			t.Errorf("backup %d holds %d messages and says %d", i, len(ids), b.Messages)
		}
		if info, err := os.Stat(file); err != nil || info.Size() != b.Bytes || info.Mode().Perm() != 0o600 {
			t.Errorf("backup %d: %v, %v; want %d bytes and mode 0600", i, info, err, b.Bytes)
		}
		copied, err := f.router.OpenOther(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		defer copied.Close()
		for _, name := range []string{"messages_without_trace", "trace_disagrees"} {
			answer, err := f.try(copied, "sql", `{"named":"`+name+`","limit":10}`)
			if err != nil {
				t.Fatal(err)
			}
			if rows := answer.Result.(inspection.SQLResult).Rows.Values(); len(rows) > 0 {
				t.Errorf("backup %d: %s: %v", i, name, rows)
			}
		}
	}
	l.end()
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(f.path), ".mailroom-backup-*")); len(left) > 0 {
		t.Errorf("the backups left %q behind", left)
	}
}
