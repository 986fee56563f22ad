package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// JSONL appends each message as one line of JSON to a file: document 004's file-based notification. A line is synced
// before the message counts as delivered, and is never written twice. Its address is the path: `--deliver jsonl:PATH`.
//
// Whoever reads the file may follow it as it grows. Whoever rotates it must hold a flock(2) on PATH.lock meanwhile, and
// should know that a message which was being delivered when its process was killed cannot be found in a file that was
// rotated since: it fails, saying so.
type JSONL struct{}

// lockPoll is how often an attempt looks whether another has let go of the file.
const lockPoll = 5 * time.Millisecond

// maxLines is the largest batch: one write and one fsync.
const maxLines = 500

// line is what the recipient gets: what means something to it, and nothing of the router's own book-keeping.
type line struct {
	MessageID   string          `json:"message_id"`
	Sender      string          `json:"sender"`
	Recipient   string          `json:"recipient"`
	Type        string          `json:"message_type"`
	Payload     json.RawMessage `json:"payload"`
	CreatedAt   string          `json:"created_at"`
	Priority    int             `json:"priority"`
	Summary     string          `json:"summary,omitempty"`
	Context     string          `json:"context,omitempty"`
	Action      string          `json:"action,omitempty"`
	ThreadID    string          `json:"thread_id,omitempty"`
	SessionID   string          `json:"session_id,omitempty"`
	ReplyTo     string          `json:"reply_to,omitempty"`
	MulticastID string          `json:"multicast_id,omitempty"`
	Group       string          `json:"multicast_target,omitempty"`
	ExpiresAt   string          `json:"expires_at,omitempty"`
	TraceID     string          `json:"trace_id,omitempty"`
}

// place is the note that an attempt leaves with its messages: from where on in which file its lines are.
type place struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"`
}

// Check makes the path absolute. What is there must be a regular file; nothing need be there yet.
func (JSONL) Check(address string) (string, error) {
	if address == "" {
		return "", errors.New("a path is missing: write jsonl:PATH")
	}
	path, err := filepath.Abs(address)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	return path, nil
}

// MaxBatch is the most lines of one write.
func (JSONL) MaxBatch() int { return maxLines }

// Deliver appends the messages in one write and syncs it. A line that an earlier crash left torn is ended first.
func (JSONL) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	err := deliverLines(ctx, a)
	errs := make([]error, len(a.Messages))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func deliverLines(ctx context.Context, a orchestrator.Attempt) error {
	lines, err := encodeLines(a.Messages)
	if err != nil {
		return err
	}
	unlock, err := lockFile(ctx, a.Address)
	if err != nil {
		return err
	}
	defer unlock()
	file, created, err := openLines(a.Address)
	if err != nil {
		return err
	}
	defer file.Close()
	at, err := placeOf(file)
	if err != nil {
		return err
	}
	if at.Size > 0 {
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, at.Size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			lines = append([]byte{'\n'}, lines...)
		}
	}
	note, err := json.Marshal(at)
	if err != nil {
		return err
	}
	if err := a.Mark(ctx, string(note)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // nothing was written yet
	}
	if _, err := file.WriteAt(lines, at.Size); err != nil {
		// Whoever holds the lock is the only writer: what was written of the lines can be taken back.
		return errors.Join(err, file.Truncate(at.Size))
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("%s could not be synced: %w", a.Address, err)
	}
	if created {
		return syncFolder(filepath.Dir(a.Address))
	}
	return nil
}

func encodeLines(ms []orchestrator.Message) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, m := range ms {
		err := enc.Encode(line{
			MessageID: m.ID, Sender: m.Sender, Recipient: m.Recipient, Type: m.Type, Payload: m.Payload, CreatedAt: m.CreatedAt,
			Priority: m.Priority, Summary: m.Summary, Context: m.Context, Action: m.Action, ThreadID: m.ThreadID,
			SessionID: m.SessionID, ReplyTo: m.ReplyTo, MulticastID: m.MulticastID, Group: m.Group, ExpiresAt: m.ExpiresAt,
			TraceID: m.TraceID,
		})
		if err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// lockFile takes the flock on the side file. The wait ends with ctx: a holder that is stuck makes the attempt time out.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	side, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, folderHint(path, err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(side.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { side.Close() }, nil // closing lets go
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			side.Close()
			return nil, fmt.Errorf("locking %s.lock: %w", path, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			side.Close()
			return nil, fmt.Errorf("%s.lock is held by another program: %w", path, context.Cause(ctx))
		}
	}
}

func folderHint(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s does not exist; make it, and the next attempt gets through", filepath.Dir(path))
	}
	return err
}

// openLines opens the file to append to, making it if it is not there. Only a regular file will do: a pipe or a device
// cannot be read back after a crash.
func openLines(path string) (file *os.File, created bool, err error) {
	_, err = os.Lstat(path)
	created = errors.Is(err, fs.ErrNotExist)
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, false, folderHint(path, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, false, err
	}
	return file, created, nil
}

func placeOf(file *os.File) (place, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return place{}, err
	}
	return place{Device: uint64(s.Dev), Inode: s.Ino, Size: s.Size}, nil
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// Recover looks for the message from the place that its earlier attempt noted. The file must be the same one and no
// shorter, otherwise it cannot be known. A torn last line does not count.
func (JSONL) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	m := a.Messages[0]
	var from place
	if err := json.Unmarshal([]byte(m.Mark), &from); err != nil {
		return false, fmt.Errorf("the note of the earlier attempt cannot be read: %w", orchestrator.ErrUndecidable)
	}
	unlock, err := lockFile(ctx, a.Address)
	if err != nil {
		return false, err
	}
	defer unlock()
	file, err := os.Open(a.Address)
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%s is gone since an attempt that never reported back: %w", a.Address, orchestrator.ErrUndecidable)
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	now, err := placeOf(file)
	if err != nil {
		return false, err
	}
	if now.Device != from.Device || now.Inode != from.Inode || now.Size < from.Size {
		return false, fmt.Errorf("%s was rotated or cut since an attempt that never reported back: %w", a.Address, orchestrator.ErrUndecidable)
	}
	found, err := hasLine(io.NewSectionReader(file, from.Size, now.Size-from.Size), m.ID)
	if err != nil || !found {
		return false, err
	}
	// The line is there, but the process may have died before it was synced.
	return true, file.Sync()
}

// hasLine looks for a whole line with the id.
func hasLine(r io.Reader, id string) (bool, error) {
	reader := bufio.NewReaderSize(r, 256<<10)
	for {
		text, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return false, nil // a last line without its end is torn
		}
		if err != nil {
			return false, err
		}
		var l struct {
			MessageID string `json:"message_id"`
		}
		if json.Unmarshal(text, &l) == nil && l.MessageID == id {
			return true, nil
		}
	}
}
