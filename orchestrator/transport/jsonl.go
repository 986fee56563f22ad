//go:build unix

package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// JSONL appends each message as one line of JSON to a file: document 004's file-based notification. A line is
// synced before the message counts as delivered, and is never written twice. Its address is the path: `--deliver
// jsonl:PATH`.
//
// A reader may follow the file as it grows. It must accept only whole lines and skip lines that are not JSON: a
// crash can leave a torn line, which the next writer ends with a newline.
//
// Several agents and several processes may share one file. The lines of one attempt are adjacent and in order.
// Every writer holds a flock(2) on PATH.lock from before it records the file size until the lines are synced. Other
// programs that rotate, empty or write to the file must hold that lock too, as in
//
//	flock PATH.lock mv PATH PATH.1
//
// If a process is killed during a delivery and the file is rotated or emptied afterwards, the message cannot be
// found in the file; it fails with that reason. The lock file stays. It is empty and must not be removed.
//
// The file and its lock file are created with mode 0600 if they do not exist. For a reader with another user's
// rights, create both beforehand. The folder must exist: an attempt to write into a missing folder fails and is
// retried.
type JSONL struct{}

// maxLines is the largest batch: the lines of one write and one fsync.
const maxLines = 500

// forgetTimeout is the time limit for clearing the note of an attempt that wrote nothing.
const forgetTimeout = time.Second

// maxName is the longest file name that file systems accept, in bytes.
const maxName = 255

// Check makes the path absolute and resolves symbolic links in it, so that all writers of one file lock the same
// lock file. `~/` is the home folder. An existing path must be a regular file that can be written to. If the path
// does not exist, the file must be able to be created in its folder.
func (JSONL) Check(address string) (string, error) {
	switch {
	case address == "":
		return "", errors.New("no path given; write jsonl:PATH")
	case strings.ContainsRune(address, 0):
		return "", errors.New("a path must not contain NUL")
	case strings.HasSuffix(address, "/"):
		return "", fmt.Errorf("%s is a folder; name a file in it", address)
	}
	path, err := absolute(address)
	if err != nil {
		return "", err
	}
	if len(filepath.Base(path))+len(lockSuffix) > maxName {
		return "", fmt.Errorf("the file name of %s is too long; the limit is %d bytes", path, maxName-len(lockSuffix))
	}
	if info, err := os.Lstat(path); err == nil {
		if err := mustBeRegular(path, info); err != nil {
			return "", err
		}
		return path, mayWrite(path)
	}
	return path, mayWrite(filepath.Dir(path))
}

// mayWrite checks whether a file can be written to, or whether files can be created in a folder.
func mayWrite(path string) error {
	err := unix.Access(path, unix.W_OK)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %s does not exist; create it first", path)
	}
	return fmt.Errorf("cannot write to %s: %w", path, err)
}

// absolute makes a path absolute and resolves the links in it. `~/` is the home folder.
func absolute(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok { // after "jsonl:" a shell does not expand it
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(home, rest)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return resolve(path)
}

// resolve resolves the symbolic links in the part of a path that exists.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is a symbolic link to a file that does not exist", path)
	}
	folder, err := resolve(filepath.Dir(path))
	return filepath.Join(folder, filepath.Base(path)), err
}

// mustBeRegular returns an error for a file that cannot be read back after a crash, and for a link, because the
// lock file of its target is another file.
func mustBeRegular(path string, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is now a symbolic link; name the file that it points to", path)
	case info.IsDir():
		return fmt.Errorf("%s is a folder, not a regular file; name a file in it", path)
	}
	return fmt.Errorf("%s is not a regular file; a pipe or a device cannot be read back after a crash", path)
}

// IsRooted returns true: a file is on one machine.
func (JSONL) IsRooted(string) bool { return true }

// MaxBatch returns the largest number of lines in one write.
func (JSONL) MaxBatch() int { return maxLines }

// Deliver appends the messages in one write and syncs the file. It first ends a line that an earlier crash left
// torn. A message that cannot be encoded as JSON fails alone. If the disk accepts only a part, the whole lines are
// delivered, because a reader may already have them, and the torn rest is cut off.
func (JSONL) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	b := encode(a.Messages, errs)
	if len(b.of) == 0 {
		return errs
	}
	written, err := deliverBlock(ctx, a, &b)
	for i, message := range b.of {
		if i >= written {
			errs[message] = err
		}
	}
	return errs
}

// deliverBlock writes a block under the lock. It returns the number of durable lines, and the error for the others.
func deliverBlock(ctx context.Context, a orchestrator.Attempt, b *block) (lines int, err error) {
	unlock, err := lockFile(ctx, a.Address)
	if err != nil {
		return 0, err
	}
	defer unlock()
	file, err := openLines(a.Address, true)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	at, err := placeOf(file)
	if err != nil {
		return 0, err
	}
	if at.Size == 0 {
		// The file may have just been created, by this attempt or by one that was killed. Its name must be as
		// durable as the note that refers to it.
		if err := syncFolder(filepath.Dir(a.Address)); err != nil {
			return 0, err
		}
	}
	torn, err := endsTorn(file, at.Size)
	if err != nil {
		return 0, err
	}
	at.First = a.Messages[b.of[0]].ID
	note, err := json.Marshal(at)
	if err != nil {
		return 0, err
	}
	if err := a.Mark(ctx, string(note)); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		forget(ctx, a)
		return 0, context.Cause(ctx)
	}
	return appendBlock(ctx, a, file, at.Size, torn, b)
}

// appendBlock writes the block at the end of the file and syncs it. The end may have moved since if another program
// ignores the lock.
func appendBlock(
	ctx context.Context, a orchestrator.Attempt, file *os.File, size int64, torn bool, b *block,
) (lines int, err error) {
	start := 1
	if torn {
		start = 0
	}
	n, werr := file.Write(b.text[start:])
	lines = len(b.ends)
	if werr != nil {
		werr = fmt.Errorf("cannot write to %s: %w", a.Address, werr)
		var end int
		lines, end = b.whole(start + n)
		cut := cutBack(file, size+int64(n), size+int64(max(end-start, 0)))
		if lines == 0 {
			if cut == nil {
				forget(ctx, a)
			}
			return 0, errors.Join(werr, cut)
		}
	}
	if err := file.Sync(); err != nil {
		// It is unknown what reached the disk. Recover checks, and writes the line again.
		return 0, errors.Join(werr, fmt.Errorf("cannot sync %s: %w", a.Address, err))
	}
	return lines, werr
}

// cutBack removes a torn end from the file. If another program has ignored the lock and written after the torn end,
// cutBack returns an error, and the next writer ends the torn line.
func cutBack(file *os.File, end, keep int64) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != end {
		return fmt.Errorf("another program wrote to %s without locking it", file.Name())
	}
	return file.Truncate(keep)
}

// forget clears the note of an attempt that left nothing in the file, so that later changes to the file cannot make
// the attempt look undecidable. If clearing fails, the first note is still true.
func forget(ctx context.Context, a orchestrator.Attempt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	_ = a.Mark(ctx, "") // see above
}

// openLines opens the file: to append with create, or to read and repair it without. The file must be regular.
func openLines(path string, create bool) (file *os.File, err error) {
	if info, err := os.Lstat(path); err == nil {
		if err := mustBeRegular(path, info); err != nil {
			return nil, err // without opening it: opening alone can trigger a device
		}
	}
	if create {
		file, err = openOrCreate(path, os.O_RDWR|os.O_APPEND)
		err = folderHint(path, err)
	} else {
		file, err = os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = mustBeRegular(path, info)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// endsTorn reports whether the last line lacks its newline.
func endsTorn(file *os.File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, size-1); err != nil {
		return false, fmt.Errorf("cannot read %s: %w", file.Name(), err)
	}
	return last[0] != '\n', nil
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// Recover searches for the message, starting at the position that its earlier attempt recorded. The file must be
// the same one, not shorter, and unchanged up to that position; otherwise the error wraps ErrUndecidable. A torn
// line does not count. A line that lacks only its newline counts, and Recover adds the newline.
func (JSONL) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	m := a.Messages[0]
	if m.Mark == "" {
		return false, nil // the attempt recorded that it wrote nothing
	}
	var from place
	if err := json.Unmarshal([]byte(m.Mark), &from); err != nil {
		return false, undecidable(a.Address, "the record of the attempt cannot be read")
	}
	unlock, err := lockFile(ctx, a.Address)
	if err != nil {
		return false, err
	}
	defer unlock()
	file, err := openLines(a.Address, false)
	if errors.Is(err, fs.ErrNotExist) {
		return false, undecidable(a.Address, "the file no longer exists")
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	now, err := placeOf(file)
	if err != nil {
		return false, err
	}
	if err := from.stillIn(file, now); err != nil {
		return false, err
	}
	s, err := searchLine(ctx, io.NewSectionReader(file, from.Size, now.Size-from.Size), m.ID)
	if err != nil {
		return false, err
	}
	if !s.found {
		if !from.conclusive(now, s.first) {
			return false, undecidable(a.Address, "the file was empty before the attempt and has changed since then, so the message might have been written and then removed")
		}
		return false, nil
	}
	if err := rewrite(file, s.text, from.Size+s.at); err != nil {
		return false, err
	}
	return true, nil
}

// rewrite writes a line that is already in the file again, with its newline, and syncs it. The line may be in
// memory only. After a failed sync the system regards the data as written, so it is synced again only if it is
// written again.
func rewrite(file *os.File, text []byte, at int64) error {
	if _, err := file.WriteAt(text, at); err != nil {
		return fmt.Errorf("cannot write to %s: %w", file.Name(), err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("cannot sync %s: %w", file.Name(), err)
	}
	return nil
}
