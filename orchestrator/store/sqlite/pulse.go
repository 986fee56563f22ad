package sqlite

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// pulse shows other processes that this one lives: a lock on one byte of the turnstile's file, which the kernel drops
// when the process ends, however it ends. A lease whose holder has no pulse any more is over at once; without that it
// would hold its sender and recipient up until it runs out, more than five minutes.
//
// The byte is a random number, and stands in the lease's token together with the file's: who looks at another file, or
// at a token that names no byte, knows nothing, and waits until the lease runs out. A process that is stopped keeps its
// lock, and so its leases. The lock is of its own kind (OFD) and does not touch the turnstile's.
//
// Safe for concurrent use.
type pulse struct {
	path string

	mu     sync.Mutex
	open   bool
	closed bool
	fd     int
	file   fileID
	byte   int64 // that this process holds; 0 before the first lease, and where locks are not to be had
}

func newPulse(path string) *pulse { return &pulse{path: path + "-turnstile"} }

// token makes the token of a lease out of an id.
func (p *pulse) token(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byte == 0 && p.opened() {
		var random [8]byte
		rand.Read(random[:])
		at := int64(binary.BigEndian.Uint64(random[:])>>2) | 1<<32 // away from the bytes that SQLite locks in its files
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

// opened opens the file if need be, and makes sure that it is the one that others find.
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

// close ends the pulse.
func (p *pulse) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		unix.Close(p.fd)
	}
	p.open, p.closed, p.byte = false, true, 0
}
