package person

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// Stay records that the keys of phones are on this host, if there are any, after the database has moved. For a
// database file it removes the setting.
func Stay(t *ledger.Tx) error {
	if !t.Ledger.IsCentral() {
		return t.Run(`DELETE FROM settings WHERE key = ?`, ledger.SignalHost)
	}
	phones, err := questions.HasDevice(t.Conn)
	if err == nil && phones {
		err = t.StoreSetting(ledger.SignalHost, t.Ledger.Host())
	}
	return err
}

// CopyKeys copies the keys of one database to another database to which its tables have moved. The keys that remain
// at the old place do no harm.
func CopyKeys(from, to *ledger.Ledger) error {
	if _, err := os.Lstat(from.FilePrefix() + "-signal"); errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, syscall.ENOTDIR) {
		return nil // or this user has no place for keys at all
	}
	old, err := openKeys(from, false)
	if err != nil {
		return err
	}
	defer old.close()
	if old.root == nil {
		return nil // it has been removed since
	}
	now, err := openKeys(to, true)
	if err != nil {
		return err
	}
	defer now.close()
	return fs.WalkDir(old.root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := old.content(path)
		if err != nil {
			return err
		}
		return store.ReplaceFile(filepath.Join(now.path, path), text, 0o600)
	})
}
