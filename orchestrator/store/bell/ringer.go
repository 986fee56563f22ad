package bell

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ringer sends the rings of one process to the sockets in a bell's folder. It keeps the folder and its own socket
// open, and keeps the list of names until the folder changes, because opening and listing the folder for every ring
// would take as long as a small transaction. The zero value is ready to use. It is safe for concurrent use.
type ringer struct {
	mu     sync.Mutex
	closed bool // keep nothing open any more
	opened bool // dir and socket are valid
	dir    int
	socket int
	names  []string
	since  unix.Timespec // modification time of the folder when it was listed
	sure   bool          // names is valid until the folder changes again
}

// unsureFor is how long a folder must be unchanged before its list is kept: two changes within one tick of the file
// system's clock look like one.
const unsureFor = 100 * time.Millisecond

// ring sends a datagram to every socket in the folder except own.
//
// A listener binds its socket before it looks into the database, and the folder is listed after the commit. A
// listener that is missing in the list therefore sees the commit when it looks.
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

// list updates names. It returns false if there is no folder, or if no socket can be opened.
func (g *ringer) list(folder string) bool {
	var s unix.Stat_t
	if g.opened && (unix.Fstat(g.dir, &s) != nil || s.Nlink == 0) {
		g.drop() // the folder was removed; another may have its name
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

// ringOne sends one datagram and ignores errors. A full queue means that the listener has not received earlier rings
// yet. A refused connection means that the listener's process is dead, or that the socket is just being bound.
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

// close closes the files of the ringer. Later rings are still sent.
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

// deadAfter is the age at which a socket that refuses connections is considered dead.
const deadAfter = 10 * time.Second

// removeDead removes the name of a socket that no process has open. Names are random, so the name is not bound
// again.
func removeDead(dir int, name string) {
	if s, is := socketAt(dir, name); is && time.Since(time.Unix(s.Mtim.Unix())) > deadAfter {
		unix.Unlinkat(dir, name, 0)
	}
}

// socketAt reports whether a name in an open folder is a socket. A symbolic link to a socket does not count: whoever
// put the folder there could otherwise make this process ring any socket of this machine.
func socketAt(dir int, name string) (s unix.Stat_t, is bool) {
	err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW)
	return s, err == nil && s.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// namesIn lists an open folder. It returns the names that it could read before an error.
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

// datagramSocket opens a socket that child processes do not inherit.
func datagramSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}
