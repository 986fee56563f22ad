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

// JSONL appends each message as one line of JSON to a file: document 004's file-based notification. A line is synced
// before the message counts as delivered, and is never written twice. Its address is the path: `--deliver jsonl:PATH`.
//
// A reader may follow the file as it grows. It takes whole lines only, and skips a line that is no JSON: a crash can
// leave a torn line, which the next writer ends with a newline.
//
// Several agents and several processes may share one file; the lines of one attempt stand together and in order. Every
// writer holds a flock(2) on PATH.lock from before it notes the size until the lines are synced. Whoever rotates or
// empties the file, or writes to it as well, must hold that lock meanwhile, as in
//
//	flock PATH.lock mv PATH PATH.1
//
// and should know that a message which was being delivered when its process was killed cannot be found in a file that
// was rotated or emptied since: it fails, saying so. The side file stays; it is empty and must not be removed.
//
// The file and its side file are made with mode 0600 when they are not there. For a reader with another user's rights,
// make both beforehand. The folder must exist: an attempt to write into a missing one fails and is tried again.
type JSONL struct{}

// maxLines is the largest batch: one write and one fsync.
const maxLines = 500

// forgetTimeout is how long an attempt that wrote nothing may take to say so.
const forgetTimeout = time.Second

// maxName is the longest file name that file systems take, in bytes.
const maxName = 255

// Check makes the path absolute and resolves symbolic links in it, so that all who write to one file lock the same side
// file. `~/` is the home folder. What is there must be a regular file that can be written to; if nothing is there yet,
// its folder must be such that it can be made.
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

// mayWrite looks whether a file can be written to, or files be made in a folder.
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

// absolute makes a path absolute and follows the links in it; `~/` is the home folder.
func absolute(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok { // a shell leaves it alone after "jsonl:"
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

// resolve follows the symbolic links in that part of a path that exists.
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

// mustBeRegular refuses what cannot be read back after a crash, and a link: the side file of its target is another one.
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

// IsRooted reports true: a file is on one machine.
func (JSONL) IsRooted(string) bool { return true }

// MaxBatch is the most lines of one write.
func (JSONL) MaxBatch() int { return maxLines }

// Deliver appends the messages in one write and syncs it. A line that an earlier crash left torn is ended first. A
// message that cannot be written as JSON fails alone. When the disk takes only a part, the lines that are whole are
// delivered, since a reader may have them already, and what is torn is cut off.
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

// deliverBlock writes a block under the lock and returns how many of its lines are durable; err is about the others.
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
		// It may have been made just now, by this attempt or by one that was killed. Its name must last as long as
		// the note that speaks of it.
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

// appendBlock writes the block at the end of the file, whatever another program that ignores the lock may have put
// there since, and syncs it.
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
		// Nobody knows what of it will reach the disk. Recover looks, and writes it anew.
		return 0, errors.Join(werr, fmt.Errorf("cannot sync %s: %w", a.Address, err))
	}
	return lines, werr
}

// cutBack takes a torn end off the file, unless somebody who ignores the lock has written behind it: then the next
// writer ends the torn line.
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

// forget takes back the note of an attempt that left nothing in the file, so that what happens to the file before the
// next one cannot make it look undecidable. If it fails, the first note is still true.
func forget(ctx context.Context, a orchestrator.Attempt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	_ = a.Mark(ctx, "") // see above
}

// openLines opens the file to append to it, or with create false to read and repair it. Only a regular file will do.
func openLines(path string, create bool) (file *os.File, err error) {
	if info, err := os.Lstat(path); err == nil {
		if err := mustBeRegular(path, info); err != nil {
			return nil, err // without opening it: that alone can do something to a device
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

// Recover looks for the message from the place that its earlier attempt noted. The file must be the same one, no
// shorter, and unchanged up to there, otherwise it cannot be known. A torn line does not count, but one that lacks its
// newline only does, and is given it.
func (JSONL) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	m := a.Messages[0]
	if m.Mark == "" {
		return false, nil // the attempt said itself that it wrote nothing
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

// rewrite makes a line durable that stands in the file, with its newline. It may be in memory only, and after a sync
// that failed the system holds it for written: it is synced again only if it is written again.
func rewrite(file *os.File, text []byte, at int64) error {
	if _, err := file.WriteAt(text, at); err != nil {
		return fmt.Errorf("cannot write to %s: %w", file.Name(), err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("cannot sync %s: %w", file.Name(), err)
	}
	return nil
}
