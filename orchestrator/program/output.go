//go:build unix

package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// TailSize is the number of bytes kept of the beginning of a command's output, and of its end.
const TailSize = 4 << 10

// Tails keeps the first and the last TailSize bytes written to it, and counts the bytes dropped between them. The
// zero value is empty. A Tails must not be used concurrently.
type Tails struct {
	head, last []byte
	left       int64 // number of bytes dropped between them
}

// Write accepts all bytes and never fails.
func (t *Tails) Write(p []byte) (int, error) {
	take := min(TailSize-len(t.head), len(p))
	t.head, t.last = append(t.head, p[:take]...), append(t.last, p[take:]...)
	if extra := len(t.last) - TailSize; extra > 0 {
		t.last, t.left = slices.Delete(t.last, 0, extra), t.left+int64(extra)
	}
	return len(p), nil
}

// String returns the kept text, with a note of the number of bytes omitted between its beginning and its end. The
// text is valid UTF-8 without NUL; invalid bytes are replaced.
func (t *Tails) String() string {
	last := string(t.last)
	if t.left == 0 {
		return readable(string(t.head) + last)
	}
	head, left := string(t.head), t.left
	for i := 1; i < utf8.UTFMax && i <= len(head); i++ { // omit a character that the cut splits
		if start := len(head) - i; utf8.RuneStart(head[start]) {
			if !utf8.FullRuneInString(head[start:]) {
				head, left = head[:start], left+int64(i)
			}
			break
		}
	}
	for i := 0; i < utf8.UTFMax-1 && last != "" && !utf8.RuneStart(last[0]); i++ {
		last, left = last[1:], left+1
	}
	return fmt.Sprintf("%s\n[... %d bytes omitted ...]\n%s", readable(head), left, readable(last))
}

func readable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// ReadLog returns the beginning and the end of a Log file of a running or ended command, as Tails keeps them.
func ReadLog(path string) (string, error) { return readLog(path, 0) }

// readLog returns the beginning and the end of a log from which cut bytes were removed before.
func readLog(path string, cut int64) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var t Tails
	if _, err := io.Copy(&t, io.NewSectionReader(file, 0, TailSize)); err != nil {
		return "", err
	}
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	from := max(TailSize, info.Size()-TailSize)
	t.left = from - TailSize + cut
	if _, err := io.Copy(&t, io.NewSectionReader(file, from, TailSize)); err != nil {
		return "", err
	}
	return t.String(), nil
}

// A log that exceeds MaxLog is cut: its first TailSize bytes and its last logKept bytes stay. The logs of this
// process's commands are checked every logPoll.
const (
	MaxLog  = 4 << 20
	logKept = 1 << 20
	logPoll = 100 * time.Millisecond
)

// logCut marks the place where a log was cut.
const logCut = "\n[... the log was cut here ...]\n"

// BoundLog cuts a Log file of a running or ended command if it exceeds MaxLog. Output written during the cut may be
// lost. BoundLog returns the number of bytes by which the file has shrunk. A missing file is not an error.
func BoundLog(path string) (removed int64, err error) { return cutLog(path, MaxLog, logKept) }

// cutLog cuts a log that exceeds limit to its first TailSize and its last keep bytes. Several processes may call it
// at the same time.
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
		return 0, nil // another process is cutting it
	}
	defer unix.Flock(int(file.Fd()), unix.LOCK_UN)
	if info, err = file.Stat(); err != nil || info.Size() <= limit {
		return 0, err
	}
	if _, err := file.WriteAt([]byte(logCut), TailSize); err != nil {
		return 0, fmt.Errorf("cannot shorten the log: %w", err)
	}
	end, err := io.Copy(io.NewOffsetWriter(file, int64(TailSize+len(logCut))),
		io.NewSectionReader(file, info.Size()-keep, 2*keep))
	if err != nil {
		return 0, fmt.Errorf("cannot shorten the log: %w", err)
	}
	end += int64(TailSize + len(logCut))
	return info.Size() - end, file.Truncate(end)
}

// boundUntil keeps the log of a command bounded until the command has ended, and returns the number of bytes
// removed.
func boundUntil(ended <-chan struct{}, path string) (removed int64) {
	for {
		select {
		case <-ended:
			return removed
		case <-time.After(logPoll):
			n, _ := BoundLog(path) // a failed cut is retried
			removed += n
		}
	}
}
