package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A log that has grown beyond MaxLog is cut: its first TailSize bytes and its last logKept stay. The logs of commands of
// this process are looked at every logPoll.
const (
	MaxLog  = 4 << 20
	logKept = 1 << 20
	logPoll = 100 * time.Millisecond
)

// logCut stands in a log where it was cut.
const logCut = "\n[... the log was cut here ...]\n"

// BoundLog cuts a file that is the Log of a command, running or ended, if it has grown beyond MaxLog. What is printed in
// the moment of cutting may be lost. It returns by how many bytes the file has shrunk. A file that is not there is no error.
func BoundLog(path string) (removed int64, err error) { return cutLog(path, MaxLog, logKept) }

// cutLog leaves the first TailSize and the last keep bytes of a log that has grown beyond a limit. Several processes may do
// this at a time.
func cutLog(path string, limit, keep int64) (removed int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() <= limit {
		return 0, err
	}
	if err := lock(file); err != nil {
		return 0, nil // another one is at it
	}
	defer unix.Flock(int(file.Fd()), unix.LOCK_UN)
	if info, err = file.Stat(); err != nil || info.Size() <= limit {
		return 0, err
	}
	if _, err := file.WriteAt([]byte(logCut), TailSize); err != nil {
		return 0, fmt.Errorf("cutting the log: %w", err)
	}
	end, err := io.Copy(io.NewOffsetWriter(file, int64(TailSize+len(logCut))), io.NewSectionReader(file, info.Size()-keep, 2*keep))
	if err != nil {
		return 0, fmt.Errorf("cutting the log: %w", err)
	}
	end += int64(TailSize + len(logCut))
	return info.Size() - end, file.Truncate(end)
}

// boundUntil keeps the log of a command bounded until it has ended, and returns by how many bytes it was cut.
func boundUntil(ended <-chan struct{}, path string) (removed int64) {
	for {
		select {
		case <-ended:
			return removed
		case <-time.After(logPoll):
			n, _ := BoundLog(path) // one that cannot be cut now is tried again
			removed += n
		}
	}
}
