package bell

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ringer sends the rings of one process to the sockets in a bell's folder. It keeps the folder and its own socket open,
// and knows the names in the folder until they change: to open and list it for every ring takes as long as a small
// transaction. The zero value is ready. Safe for concurrent use.
type ringer struct {
	mu     sync.Mutex
	closed bool // nothing is kept any more
	opened bool // dir and socket are valid
	dir    int
	socket int
	names  []string
	since  unix.Timespec // when the folder had changed last, as it was listed
	sure   bool          // names stand until the folder changes again
}

// unsureFor is how long a folder must have been left alone for its list to be kept: two changes within one tick of the
// file system's clock look like one.
const unsureFor = 100 * time.Millisecond

// ring sends a datagram to every socket in the folder but own.
//
// A listener binds its socket before it looks into the database, and the folder is looked at after the commit: whoever
// is missing in it will see the commit when it looks.
func (g *ringer) ring(folder, own string, datagram []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.list(folder) {
		return // nobody listens
	}
	for _, name := range g.names {
		if name != own {
			g.ringOne(folder, name, datagram)
		}
	}
	if g.closed {
		g.drop()
	}
}

// list brings names up to date. False means that there is no folder, or no socket to be had.
func (g *ringer) list(folder string) bool {
	var s unix.Stat_t
	if g.opened && (unix.Fstat(g.dir, &s) != nil || s.Nlink == 0) {
		g.drop() // the folder was removed; there may be another under its name
	}
	if !g.opened {
		dir, err := openBellFolder(folder)
		if err != nil {
			return false
		}
		socket, err := datagramSocket()
		if err == nil {
			err = unix.Fstat(dir, &s)
		}
		if err != nil {
			unix.Close(dir)
			return false
		}
		g.dir, g.socket, g.opened, g.sure = dir, socket, true, false
	}
	if g.sure && s.Mtim == g.since {
		return true
	}
	g.since = s.Mtim
	g.sure = time.Since(time.Unix(s.Mtim.Unix())) > unsureFor
	unix.Seek(g.dir, 0, unix.SEEK_SET)
	g.names = slices.DeleteFunc(namesIn(g.dir), func(name string) bool { _, is := socketAt(g.dir, name); return !is })
	return true
}

// ringOne sends one datagram. A full queue means that the listener has rings it has not heard yet. A refusal means that
// its process died, or that the socket is being bound this moment. What else may be wrong is not the ringer's business.
func (g *ringer) ringOne(folder, name string, datagram []byte) {
	address := socketAddress(folder, g.dir, name)
	if address == "" {
		return
	}
	err := unix.Sendto(g.socket, datagram, unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: address})
	if errors.Is(err, unix.ECONNREFUSED) {
		removeDead(g.dir, name)
	}
}

// Close ends the keeping. A ring that comes later is sent all the same.
func (g *ringer) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.drop()
}

func (g *ringer) drop() {
	if g.opened {
		unix.Close(g.dir)
		unix.Close(g.socket)
		g.opened = false
	}
}

// deadAfter is how old a socket that refuses must be to count as dead.
const deadAfter = 10 * time.Second

// removeDead removes the name of a socket that nobody has open. Names are random, so nobody will bind it again.
func removeDead(dir int, name string) {
	if s, is := socketAt(dir, name); is && time.Since(time.Unix(s.Mtim.Unix())) > deadAfter {
		unix.Unlinkat(dir, name, 0)
	}
}

// socketAt reports whether a name in an open folder is that of a socket. A link to one is none: whoever brought the
// folder here could have any socket of this machine rung by it.
func socketAt(dir int, name string) (s unix.Stat_t, is bool) {
	err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW)
	return s, err == nil && s.Mode&unix.S_IFMT == unix.S_IFSOCK
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
