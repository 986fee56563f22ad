package bell

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
)

// openPlain opens a database like a program that uses SQLite without Mailroom.
func openPlain(t *testing.T, path string) *sqlite3.SQLiteConn {
	t.Helper()
	c, err := (&sqlite3.SQLiteDriver{}).Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*sqlite3.SQLiteConn)
}

func plainExec(t *testing.T, c *sqlite3.SQLiteConn, text string) {
	t.Helper()
	if _, err := c.Exec(text, nil); err != nil {
		t.Fatal(err)
	}
}

func plainNumber(c *sqlite3.SQLiteConn, query string) (int64, error) {
	rows, err := c.Query(query, nil)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	row := make(store.Row, 1)
	if err := rows.Next(row); err != nil {
		return 0, err
	}
	return row[0].(int64), nil
}

func TestBellHearsAPlainWriter(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("the -wal file is watched on Linux only")
		return
	}
	path := filepath.Join(t.TempDir(), "a.db")
	writer, reader, asked := openPlain(t, path), openPlain(t, path), openPlain(t, path)
	plainExec(t, writer, `PRAGMA journal_mode=WAL; CREATE TABLE m (n INTEGER)`)

	bell := New(path, slog.Default())
	bell.poll = time.Hour
	last, err := plainNumber(asked, `PRAGMA data_version`)
	if err != nil {
		t.Fatal(err)
	}
	bell.Detector = detect(func() bool {
		now, err := plainNumber(asked, `PRAGMA data_version`)
		differs := err != nil || now != last
		last = now
		return differs
	})
	rings := listen(t, bell)
	for want := int64(1); want <= 20; want++ {
		plainExec(t, writer, `INSERT INTO m VALUES (1)`)
		for got := int64(0); got < want; {
			<-rings
			if got, err = plainNumber(reader, `SELECT count(*) FROM m`); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// awaitEvent waits for an event of the hint, and passes it to handle.
func awaitEvent(t *testing.T, h *walHint) fsnotify.Event {
	t.Helper()
	select {
	case event := <-h.events():
		h.handle(event)
		return event
	case err := <-h.errors():
		t.Fatal(err)
		return fsnotify.Event{}
	}
}

func TestWALHintFollowsTheFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("the -wal file is watched on Linux only")
		return
	}
	path := filepath.Join(t.TempDir(), "a.db")
	hint := watchWAL(path + "-wal")
	defer hint.close()
	if hint == nil || hint.renew() {
		t.Fatal("watches a file that is not there")
	}
	for range 3 {
		writer := openPlain(t, path)
		plainExec(t, writer, `PRAGMA journal_mode=WAL; CREATE TABLE IF NOT EXISTS m (n INTEGER); INSERT INTO m VALUES (1)`)
		if !hint.renew() {
			t.Fatal("does not see that the file came")
		}
		for write := false; !write; { // the first events may be left from the previous file
			plainExec(t, writer, `INSERT INTO m VALUES (1)`)
			write = awaitEvent(t, hint).Has(fsnotify.Write)
		}
		writer.Close() // the last connection removes the file when it closes
		if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal("the -wal is still there")
		}
		for hint.watched != nil {
			awaitEvent(t, hint)
		}
	}
}

func TestBellWithoutAHint(t *testing.T) {
	t.Parallel()
	var none *walHint
	if none.events() != nil || none.errors() != nil || none.renew() {
		t.Error("no hint says something")
	}
	none.close()
}
