package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketBell is the doorbell of a database: a folder DBPATH-bell in which every listening process has a unix datagram
// socket. Ringing sends each of them one datagram, see ringOf. A process has one ear (see ear) however many listen in it.
//
// It only ever saves time. Without it (a read-only folder, a writer that knows nothing of it) the ear's own ways of
// noticing a commit remain.
type socketBell struct {
	folder string
	wal    string
	log    *slog.Logger

	// detector begins to watch the database for changes, so that a hint or a poll rings only if somebody committed:
	// changed says whether there was a commit since detector, or changed, was called last, and stop ends that. The calls
	// of one pair never overlap, stop is called once, and no changed after it. nil: every look rings. Set it before the
	// first Listen.
	detector func() (changed func() bool, stop func())

	// poll is how often an ear looks without any hint, and whether its socket is still there. Set it before the first
	// Listen.
	poll time.Duration

	// linger is how long the ear stays open without a listener: to close it takes the kernel tens of milliseconds, which
	// would be part of every wait. Set it before the first Listen.
	linger time.Duration

	local listeners
	own   atomic.Pointer[string] // the name of this process's socket, nil without one

	mu   sync.Mutex
	ear  *ear        // nil while nobody listens
	idle *time.Timer // closes the ear; nil while somebody listens
}

// newBell returns the bell of the database at dbPath. It touches nothing before the first Listen.
func newBell(dbPath string, log *slog.Logger) *socketBell {
	poll := time.Second
	if runtime.GOOS == "linux" {
		poll = 2 * time.Second // the -wal file gives hints there
	}
	return &socketBell{folder: dbPath + "-bell", wal: dbPath + "-wal", log: log, poll: poll}
}

// Listen implements Bell. Where no socket can be made it falls back silently. The ear outlives its last listener by
// linger; close ends it at once.
func (b *socketBell) Listen(ctx context.Context, recipient string) (<-chan bool, func(), error) {
	if ctx.Err() != nil {
		return nil, func() {}, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rings := b.local.add(recipient)
	if b.idle != nil {
		b.idle.Stop()
		b.idle = nil
	}
	if b.ear == nil {
		b.ear = openEar(b)
	}
	stop := stopOnce(ctx, func() {
		if b.local.remove(recipient, rings) > 0 {
			return
		}
		if b.linger == 0 {
			b.close()
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.idle = time.AfterFunc(b.linger, b.close)
	})
	return rings, stop, nil
}

// close ends the ear, unless somebody listens.
func (b *socketBell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ear == nil || b.local.count() > 0 {
		return
	}
	if b.idle != nil {
		b.idle.Stop()
		b.idle = nil
	}
	b.ear.close()
	b.ear = nil
}

// Ring implements Bell.
//
// A listener binds its socket before it looks into the database, and we read the folder after the commit: whoever is
// missing in the folder will see the commit when it looks.
func (b *socketBell) Ring(recipients ...string) {
	b.local.wake(recipients...)
	dir, err := openBellFolder(b.folder)
	if err != nil {
		return // nobody ever listened
	}
	defer unix.Close(dir)
	own, socket, ring := b.own.Load(), -1, ringOf(recipients)
	for _, name := range namesIn(dir) {
		if own != nil && name == *own {
			continue // local.wake was its ring
		}
		if socket < 0 {
			if socket, err = datagramSocket(); err != nil {
				return
			}
			defer unix.Close(socket)
		}
		b.ringOne(socket, dir, name, ring)
	}
}

// maxRing bounds a datagram of the bell, in bytes.
const maxRing = 1024

// ringOf is the datagram of a ring: the recipients, one to a line, or a single byte 1 for everybody.
func ringOf(recipients []string) []byte {
	ring := []byte(strings.Join(recipients, "\n"))
	if len(ring) == 0 || len(ring) > maxRing {
		return []byte{1}
	}
	return ring
}

// recipientsOf reads a datagram of the bell: nil is everybody.
func recipientsOf(ring []byte) []string {
	if len(ring) == 0 || ring[0] == 1 {
		return nil
	}
	return strings.Split(string(ring), "\n")
}

// ringOne sends one datagram. A full queue means that the listener has rings it has not heard yet. A refusal means that its
// process died, or that the socket is being bound this moment. What else may be wrong is not the ringer's business.
func (b *socketBell) ringOne(socket, dir int, name string, ring []byte) {
	address := socketAddress(b.folder, dir, name)
	if address == "" {
		return
	}
	err := unix.Sendto(socket, ring, unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: address})
	if errors.Is(err, unix.ECONNREFUSED) {
		removeDead(dir, name)
	}
}

// deadAfter is how old a socket that refuses must be to count as dead.
const deadAfter = 10 * time.Second

// removeDead removes the name of a socket that nobody has open. Names are random, so nobody will bind it again.
func removeDead(dir int, name string) {
	var s unix.Stat_t
	if unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil || s.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return // connecting to a file that is no socket is refused as well
	}
	if time.Since(time.Unix(s.Mtim.Unix())) > deadAfter {
		unix.Unlinkat(dir, name, 0)
	}
}

// maxSocketPath is the size of the field that takes a socket's path, its final NUL included.
const maxSocketPath = len(unix.RawSockaddrUnix{}.Path)

// socketAddress returns the path by which the kernel takes a socket in the folder, which is open as dir: the plain one
// if it is short enough, else on Linux one by way of the descriptor. "" if there is none.
func socketAddress(folder string, dir int, name string) string {
	if plain := folder + "/" + name; len(plain) < maxSocketPath {
		return plain
	}
	if runtime.GOOS != "linux" {
		return ""
	}
	return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name
}

func openBellFolder(folder string) (dir int, err error) {
	for {
		dir, err = unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if !errors.Is(err, unix.EINTR) {
			return dir, err
		}
	}
}

// namesIn lists an open folder, as far as that works.
func namesIn(dir int) (names []string) {
	var buf [4096]byte
	for {
		n, err := unix.ReadDirent(dir, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return names
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// datagramSocket opens a socket that no child process inherits.
func datagramSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}
