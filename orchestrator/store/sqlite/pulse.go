package sqlite

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// pulse shows other processes that this process is alive. It holds a lock on one byte of the turnstile's file, which
// the kernel drops when the process ends for any reason. A lease whose holder has no pulse any more is over at once.
// Without the pulse, such a lease would block its sender and recipient until it runs out, for more than five
// minutes.
//
// The position of the byte is a random number. The lease's token contains the position and the identity of the file.
// A process that has another file open, or finds no byte in the token, cannot check the lock and waits until the
// lease runs out. A stopped process keeps its lock and its leases. The lock is an OFD lock and does not affect the
// turnstile's lock.
//
// pulse is safe for concurrent use.
type pulse struct {
	path string

	mu     sync.Mutex
	open   bool
	closed bool
	fd     int
	file   fileID
	byte   int64 // held by this process; 0 before the first lease, and if locks are not available
}

func newPulse(path string) *pulse { return &pulse{path: path + "-turnstile"} }

// token makes a lease token from an id.
func (p *pulse) token(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byte == 0 && p.opened() {
		var random [8]byte
		rand.Read(random[:])
		at := int64(binary.BigEndian.Uint64(random[:])>>2) | 1<<32 // never a byte that SQLite locks in its files
		if lockByte(p.fd, at) == nil {
			p.byte = at
		}
	}
	if p.byte == 0 {
		return id
	}
	return fmt.Sprintf("%x.%x.%x-%s", p.byte, p.file.device, p.file.inode, id)
}

// gone reports whether the holder of a lease is known to be dead.
func (p *pulse) gone(token string) bool {
	var at int64
	var file fileID
	name, _, _ := strings.Cut(token, "-")
	if n, err := fmt.Sscanf(name, "%x.%x.%x", &at, &file.device, &file.inode); n != 3 || err != nil || at <= 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.opened() || file != p.file || at == p.byte {
		return false
	}
	held, err := byteLocked(p.fd, at)
	return err == nil && !held
}

// opened opens the file if necessary, and reports whether it is the file that other processes find at the path.
func (p *pulse) opened() bool {
	if p.closed {
		return false
	}
	if p.open {
		return !isElsewhere(p.path, p.file)
	}
	fd, err := openLockFile(p.path)
	if err != nil {
		return false
	}
	file, err := fileAt(p.path)
	if err != nil || !isFile(fd, file) {
		unix.Close(fd)
		return false
	}
	p.fd, p.file, p.open = fd, file, true
	return true
}

// close drops the lock.
func (p *pulse) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		unix.Close(p.fd)
	}
	p.open, p.closed, p.byte = false, true, 0
}
