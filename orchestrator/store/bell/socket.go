// Package bell wakes processes that wait for a database in a file, through unix sockets in a folder beside it.
package bell

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/store"
)

// Sockets is the doorbell of a database: a folder DBPATH-bell in which every listening process has a unix datagram
// socket. Ringing sends each of them one datagram, see ringOf. A process has one ear (see ear) however many listen in
// it.
//
// It only ever saves time. Without it (a read-only folder, a writer that knows nothing of it) the ear's own ways of
// noticing a commit remain.
type Sockets struct {
	folder string
	wal    string
	log    *slog.Logger

	// Detector begins to watch the database for changes, so that a hint or a poll rings only if somebody committed:
	// changed says whether there was a commit since Detector, or changed, was called last, and stop ends that. The
	// calls of one pair never overlap, stop is called once, and no changed after it. nil: every look rings. Set it
	// before the first Listen.
	Detector func() (changed func() bool, stop func())

	// Exists reports whether the database is there: where it is not, no folder is made. nil: it is. Set it before the
	// first Listen.
	Exists func() bool

	// poll is how often an ear looks without any hint, and whether its socket is still there; a fifth as often while it
	// has both. Set it before the first Listen.
	poll time.Duration

	// Linger is how long the ear stays open without a listener: to close it takes the kernel tens of milliseconds,
	// which would be part of every wait. Set it before the first Listen.
	Linger time.Duration

	ringer ringer
	rang   atomic.Int64 // when a ring was last made or heard here, in nanoseconds since 1970

	local store.Listeners
	own   atomic.Pointer[string] // the name of this process's socket, nil without one

	mu   sync.Mutex
	ear  *ear        // nil while nobody listens
	idle *time.Timer // closes the ear; nil while somebody listens
}

// New returns the bell of the database at dbPath. It touches nothing before the first Listen.
func New(dbPath string, log *slog.Logger) *Sockets {
	return &Sockets{folder: dbPath + "-bell", wal: dbPath + "-wal", log: log, poll: time.Second}
}

// Listen implements Bell. Where no socket can be made it falls back silently. The ear outlives its last listener by
// Linger; Close ends it at once.
func (b *Sockets) Listen(ctx context.Context, recipient string) (<-chan bool, func(), error) {
	if ctx.Err() != nil {
		return nil, func() {}, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rings := b.local.Add(recipient)
	if b.idle != nil {
		b.idle.Stop()
		b.idle = nil
	}
	if b.ear == nil {
		b.ear = openEar(b)
	}
	stop := store.StopOnce(ctx, func() {
		if b.local.Remove(recipient, rings) > 0 {
			return
		}
		if b.Linger == 0 {
			b.Close()
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.idle = time.AfterFunc(b.Linger, b.Close)
	})
	return rings, stop, nil
}

// CloseRinger ends what ringing keeps open.
func (b *Sockets) CloseRinger() { b.ringer.close() }

// Close ends the ear, unless somebody listens.
func (b *Sockets) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ear == nil || b.local.Count() > 0 {
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
func (b *Sockets) Ring(recipients ...string) {
	b.local.Wake(recipients...)
	b.rang.Store(time.Now().UnixNano())
	own := ""
	if name := b.own.Load(); name != nil {
		own = *name // local.wake was its ring
	}
	b.ringer.ring(b.folder, own, ringOf(recipients))
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
