// Package copies copies the files of a database that SQLite does not have open, and examines the contents of a copy.
package copies

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"mailroom/orchestrator"
)

// besides holds the suffixes of the files that SQLite keeps beside a database and that belong to it: the -wal has
// the last commits, and a -journal undoes what was not committed.
var besides = []string{"-wal", "-journal"}

// Still copies a database byte for byte, with the files beside it, and returns the names of the copied files. SQLite
// never opens the source, so nothing changes there. All files are read twice: if the contents are the same both
// times, the files were consistent at a moment in between. The error is conflict if they never are, because somebody
// is writing to them.
func Still(source, target string) (taken []string, err error) {
	for range 5 {
		var still bool
		if taken, still, err = copyOnce(source, target); still || err != nil {
			return taken, err
		}
	}
	return nil, orchestrator.Errorf(orchestrator.Conflict, "another program is writing to %s", strings.Join(taken, " and ")).
		WithHint("To copy this database, run `mailroom --db %s backup FILE`. Then restore FILE",
			orchestrator.ShellWord(source))
}

// copyOnce copies the files and compares them with their copies.
func copyOnce(source, target string) (taken []string, still bool, err error) {
	ends := append([]string{""}, besides...)
	for _, end := range ends {
		is, err := copyFile(source+end, target+end)
		if err != nil {
			return nil, false, err
		}
		if is {
			taken = append(taken, source+end)
		}
	}
	for _, end := range ends {
		if still, err = sameFile(source+end, target+end); err != nil || !still {
			return taken, false, err
		}
	}
	return taken, true, nil
}

// copyFile copies a file, and reports whether the file exists. If it does not, copyFile removes the copy.
func copyFile(source, target string) (is bool, err error) {
	from, err := openSource(source)
	if from == nil {
		if rerr := os.Remove(target); err == nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
		return false, err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, notCopied(err)
	}
	if _, err = io.Copy(to, from); err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return false, notCopied(err)
	}
	return true, nil
}

// openSource opens a file to be copied. It returns nil if the file does not exist.
func openSource(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !info.Mode().IsRegular():
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "%s is not a regular file", path).
			WithHint("Put a regular file at this path, because the backup is incomplete without it")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot read " + path, Err: err,
			Hint: "Check the permissions of this file, which is part of the backup"}
	}
	return f, nil
}

// sameFile reports whether a file and its copy have the same contents, or neither exists.
func sameFile(source, target string) (same bool, err error) {
	a, err := openSource(source)
	if err != nil {
		return false, err
	}
	if a == nil {
		_, err := os.Stat(target)
		return errors.Is(err, fs.ErrNotExist), nil
	}
	defer a.Close()
	b, err := openSource(target)
	if b == nil {
		return false, err
	}
	defer b.Close()
	one, other := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(a, one)
		m, errB := io.ReadFull(b, other)
		if !bytes.Equal(one[:n], other[:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			if errA == io.EOF || errA == io.ErrUnexpectedEOF {
				errA = nil
			}
			return errA == nil, errA
		}
	}
}

// notCopied returns the error for a copy that cannot be written.
func notCopied(err error) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot copy the backup", Err: err,
		Hint: "Check the permissions and the free space on the disk"}
}
