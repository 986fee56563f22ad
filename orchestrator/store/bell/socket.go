// Package bell wakes processes that wait for a database in a file, with Unix sockets in a folder beside the file.
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

// Sockets is the bell of a database. Every listening process has a Unix datagram socket in the folder DBPATH-bell.
// Ringing sends one datagram to each socket, see ringOf. A process has one ear, however many listeners it has.
//
// The bell only saves time. Without it (a read-only folder, a writer that does not ring), the ear finds commits in
// its other ways.
type Sockets struct {
	folder string
	wal    string
	log    *slog.Logger

	// Detector begins to watch the database for commits, so that a hint or a poll rings only after a commit. changed
	// reports whether there was a commit since Detector or changed was last called, and stop ends the watch. The
	// calls of one pair never overlap; stop is called once, and changed is not called after it. If Detector is nil,
	// every look rings. Set it before the first Listen.
	Detector func() (changed func() bool, stop func())

	// Exists reports whether the database exists; if it does not, no folder is created. If Exists is nil, the
	// database is assumed to exist. Set it before the first Listen.
	Exists func() bool

	// poll is how often an ear looks without a hint, and checks that its socket is still there. An ear with both a
	// socket and a watched file looks a fifth as often. Set it before the first Listen.
	poll time.Duration

	// Linger is how long the ear stays open without a listener. Closing it takes the kernel tens of milliseconds,
	// which would be added to every wait. Set it before the first Listen.
	Linger time.Duration

	ringer ringer
	rang   atomic.Int64 // time of the last ring sent or received here, in nanoseconds since 1970

	local store.Listeners
	own   atomic.Pointer[string] // name of this process's socket; nil if there is none

	mu   sync.Mutex
	ear  *ear        // nil if nobody listens
	idle *time.Timer // closes the ear; nil while somebody listens
}

// New returns the bell of the database at dbPath. It creates nothing before the first Listen.
func New(dbPath string, log *slog.Logger) *Sockets {
	return &Sockets{folder: dbPath + "-bell", wal: dbPath + "-wal", log: log, poll: time.Second}
}

// Listen implements Bell. If no socket can be created, it silently uses the other ways. The ear stays open for
// Linger after its last listener has stopped; Close ends it at once.
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

// CloseRinger closes the files that ringing keeps open.
func (b *Sockets) CloseRinger() { b.ringer.close() }

// Close ends the ear unless somebody is listening.
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
		own = *name // local.Wake has already woken the listeners of this process
	}
	b.ringer.ring(b.folder, own, ringOf(recipients))
}

// maxRing is the maximum size of a datagram of the bell, in bytes.
const maxRing = 1024

// ringOf returns the datagram of a ring: the recipients, one per line, or a single byte 1 for everybody.
func ringOf(recipients []string) []byte {
	ring := []byte(strings.Join(recipients, "\n"))
	if len(ring) == 0 || len(ring) > maxRing {
		return []byte{1}
	}
	return ring
}

// recipientsOf decodes a datagram of the bell. It returns nil for everybody.
func recipientsOf(ring []byte) []string {
	if len(ring) == 0 || ring[0] == 1 {
		return nil
	}
	return strings.Split(string(ring), "\n")
}

// maxSocketPath is the size of the field for the path of a socket, including the final NUL.
const maxSocketPath = len(unix.RawSockaddrUnix{}.Path)

// socketAddress returns the path under which the kernel accepts a socket in the folder, which is open as dir. It is
// the plain path if that is short enough, and on Linux otherwise a path through the descriptor. It returns "" if
// there is no such path.
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
