package person

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// CopyKeys copies the keys of one database to those of another, to which its tables have moved. Those that stay behind harm nobody.
func CopyKeys(from, to *ledger.Ledger) error {
	if _, err := os.Lstat(from.Beside() + "-signal"); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // or this user has no place for them at all
	}
	old, err := openKeys(from, false)
	if err != nil {
		return err
	}
	defer old.close()
	if old.root == nil {
		return nil // it has gone since
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
