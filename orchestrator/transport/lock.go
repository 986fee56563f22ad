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

// lockSuffix is what the side file of a file is called, beside it.
const lockSuffix = ".lock"

// lockPoll is how often an attempt looks whether another has let go of the file. The kernel's own wait could not be
// given up when the context ends.
const lockPoll = 5 * time.Millisecond

// lockFile takes the flock on the side file of path. The wait ends with ctx: a holder that is stuck makes the attempt
// time out. A flock belongs to the open file, so that two attempts of one process exclude each other too, and it goes
// with its process, however that ends.
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
		if err == nil && standsAt(side, path+lockSuffix) { // if somebody has removed it, a lock on it excludes nobody
			return func() {
				// Not by closing alone: a process that is being started may hold a copy of the descriptor for a moment.
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

// openOrCreate opens a file and makes it, mode 0600, if it is not there. It does not open an existing file with
// O_CREATE: Linux refuses that in folders such as /tmp when the file is another user's, whatever its mode. Links are
// not followed and pipes do not block.
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
	return nil, err // it comes and goes
}

// standsAt reports whether name is still the name of an open file.
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
