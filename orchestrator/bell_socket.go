package orchestrator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// bellPoll is how often a listener looks whether somebody has written without ringing.
	bellPoll = time.Second
	// bellCheck is how often a listener looks whether its name is still there.
	bellCheck = 5 * time.Second
	// bellDead is the age past which a name that refuses a ring is removed; a younger one may be about to listen.
	bellDead = 10 * time.Second
)

// socketBell is a folder of unix datagram sockets beside the database, one per listener. Ringing sends a byte to each:
// 0.2 ms until the listener runs. For writers who do not know the bell there is a hint on the write-ahead log (see
// hints), and behind that a slow poll. Where no socket can be made (a read-only folder), only those are left.
// Source: engine.md, "Waking up".
type socketBell struct {
	folder string
	wal    string
	log    *slog.Logger

	// detector begins to watch for changes of the database: changed says whether there was one since the last call. nil:
	// every look rings.
	detector func() (changed func() bool, stop func())
}

func newBell(path string, log *slog.Logger) *socketBell {
	return &socketBell{folder: path + "-bell", wal: path + "-wal", log: log}
}

// Ring sends one byte to every listener. A full queue means that the listener has been rung already; every other failure
// is left to its poll.
func (b *socketBell) Ring() {
	names, err := readNames(b.folder)
	if err != nil || len(names) == 0 {
		return
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	dir, err := openFolder(b.folder)
	if err != nil {
		return
	}
	defer dir.Close()
	for _, name := range names {
		err := unix.Sendto(fd, []byte{1}, unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: socketPath(dir, name)})
		if errors.Is(err, unix.ECONNREFUSED) {
			b.removeDead(name)
		}
	}
}

// removeDead removes the name of a listener that is gone.
func (b *socketBell) removeDead(name string) {
	path := filepath.Join(b.folder, name)
	if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > bellDead {
		os.Remove(path)
	}
}

func readNames(folder string) ([]string, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(0)
}

func openFolder(folder string) (*os.File, error) {
	fd, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), folder), nil
}

// Listen makes a socket of this listener's own, and watches the write-ahead log besides.
func (b *socketBell) Listen(ctx context.Context) (<-chan struct{}, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	rings := make(chan struct{}, 1)
	done := make(chan struct{})
	fd, name := b.bind()
	changed, stopDetector := func() bool { return true }, func() {}
	if b.detector != nil {
		changed, stopDetector = b.detector()
	}
	goSafe("doorbell", b.log, func() {
		defer close(done)
		defer stopDetector()
		b.listen(ctx, fd, name, rings, changed)
	})
	return rings, func() {
		cancel()
		<-done
	}, nil
}

// bind makes the socket; -1 when none can be had.
func (b *socketBell) bind() (fd int, name string) {
	if err := os.Mkdir(b.folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return -1, ""
	}
	dir, err := openFolder(b.folder)
	if err != nil {
		return -1, ""
	}
	defer dir.Close()
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return -1, ""
	}
	unix.CloseOnExec(fd)
	random := make([]byte, 8)
	rand.Read(random)
	name = hex.EncodeToString(random)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socketPath(dir, name)}); err != nil {
		unix.Close(fd)
		return -1, ""
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return -1, ""
	}
	return fd, name
}

// listen turns datagrams, hints and polls into wake-ups until ctx ends.
func (b *socketBell) listen(ctx context.Context, fd int, name string, rings chan struct{}, changed func() bool) {
	rung := make(chan struct{}, 1)
	stopReading := b.read(fd, rung)
	defer func() {
		stopReading()
		if name != "" {
			os.Remove(filepath.Join(b.folder, name))
		}
	}()
	hints, stopHints := b.hints()
	defer stopHints()
	poll, check := time.NewTicker(bellPoll), time.NewTicker(bellCheck)
	defer poll.Stop()
	defer check.Stop()
	var looks *lookAgain
	for {
		select {
		case <-ctx.Done():
			return
		case <-rung:
			wake(rings)
		case <-hints:
			looks = looks.start()
		case <-looks.due():
			if changed() {
				wake(rings)
			}
			looks = looks.next()
		case <-poll.C:
			if changed() {
				wake(rings)
			}
		case <-check.C:
			if name == "" || !b.gone(name) {
				continue
			}
			stopReading()
			fd, name = b.bind()
			stopReading = b.read(fd, rung)
		}
	}
}

func (b *socketBell) gone(name string) bool {
	_, err := os.Lstat(filepath.Join(b.folder, name))
	return errors.Is(err, os.ErrNotExist)
}

// read waits for datagrams on a socket of ours and closes it when stopped.
func (b *socketBell) read(fd int, rung chan struct{}) (stop func()) {
	if fd < 0 {
		return func() {}
	}
	file := os.NewFile(uintptr(fd), "doorbell") // non-blocking: reads go through the runtime's poller, and end on Close
	done := make(chan struct{})
	goSafe("doorbell socket", b.log, func() {
		defer close(done)
		buffer := make([]byte, 16)
		for {
			if _, err := file.Read(buffer); err != nil {
				return
			}
			wake(rung)
		}
	})
	return func() {
		file.Close()
		<-done
	}
}
