//go:build unix

package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockSuffix is appended to the name of a file to form the name of its lock file.
const lockSuffix = ".lock"

// lockPoll is the interval at which an attempt tries to lock. The kernel's own wait could not be interrupted when
// the context ends.
const lockPoll = 5 * time.Millisecond

// lockFile takes the flock on the lock file of path. The wait ends with ctx, so if another holder is stuck, the
// attempt times out. A flock belongs to the open file. Therefore two attempts of one process exclude each other
// too, and the lock is released when its process ends, in whatever way.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for {
		side, err := openOrCreate(path+lockSuffix, os.O_RDWR)
		if err != nil {
			return nil, folderHint(path, err)
		}
		err = unix.Flock(int(side.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		// If the lock file has been removed, a lock on it excludes nobody.
		if err == nil && standsAt(side, path+lockSuffix) {
			return func() {
				// Closing is not enough: a process that is being started may briefly hold a copy of the descriptor.
				unix.Flock(int(side.Fd()), unix.LOCK_UN)
				side.Close()
			}, nil
		}
		side.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("cannot lock %s: %w", side.Name(), err)
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is locked by another program: %w", side.Name(), context.Cause(ctx))
		}
	}
}

// openOrCreate opens a file, or creates it with mode 0600 if it does not exist. It does not open an existing file
// with O_CREATE, because Linux refuses that in folders such as /tmp if the file belongs to another user, whatever
// its mode. It does not follow links and does not block on pipes.
func openOrCreate(name string, flags int) (file *os.File, err error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK
	for range 100 {
		file, err = os.OpenFile(name, flags, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
		file, err = os.OpenFile(name, flags|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
	return nil, err // the file is repeatedly created and removed
}

// standsAt reports whether name still refers to an open file.
func standsAt(file *os.File, name string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, named)
}

func folderHint(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s does not exist; create it before the next attempt",
			filepath.Dir(path))
	}
	return err
}
