package bell

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// ear receives the bell of a database for one process. It wakes the listeners of the process
// - when its socket receives a datagram, because the sender has committed;
// - after a write to the -wal file, because somebody may be about to commit, perhaps with plain SQL (see lookAgain);
// - from time to time without any sign, because signs can be missed.
//
// In the last two cases it wakes nobody if the bell's detector finds no commit.
type ear struct {
	bell    *Sockets
	socket  *net.UnixConn // nil: no socket could be created yet
	name    string        // of the socket, in the bell's folder
	hint    *walHint
	changed func() bool // whether anything may have been committed since the last call
	release func()      // releases the detector
	quit    chan struct{}
	done    chan struct{}
}

// lookAgain holds the times to look for a commit after a write to the -wal file. The commit becomes visible shortly
// after the write, or after an fsync if the commit waits for one. During the first fastLooks looks, further writes
// start nothing new. This limits the cost of a busy database, including the commits of this process, to a few hundred
// looks per second.
var lookAgain = [...]time.Duration{
	200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, // a fast disk
	25 * time.Millisecond, 100 * time.Millisecond, // a slow one
}

const fastLooks = 3

// The first looks, up to slowLooks, are skipped after a recent ring. That ring was most likely for the same write,
// and the process that was woken needs the processor.
const slowLooks = 2

// rang reports whether a ring was sent or received within the time of the first looks.
func (e *ear) rang() bool {
	return time.Since(time.Unix(0, e.bell.rang.Load())) < lookAgain[slowLooks]
}

// openEar begins to listen. It receives commits from now on.
func openEar(b *Sockets) *ear {
	e := &ear{
		bell: b, changed: func() bool { return true }, release: func() {},
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	e.bind()
	e.hint = watchWAL(b.wal)
	if b.Detector != nil {
		e.changed, e.release = b.Detector()
	}
	orchestrator.GoSafe("bell", b.log, e.run)
	return e
}

// close stops the ear and waits until the ear has cleaned up.
func (e *ear) close() {
	close(e.quit)
	<-e.done
}

func (e *ear) run() {
	defer close(e.done)
	defer e.unbind()
	defer e.release()
	defer e.hint.close()
	tick := time.NewTimer(e.interval())
	defer tick.Stop()

	look := time.NewTimer(time.Hour)
	defer look.Stop()
	var began time.Time    // start of the current series of looks
	next := len(lookAgain) // next look; len(lookAgain) if no series is running
	begin := func() {
		nap(lookAgain[0])
		began, next = time.Now().Add(-lookAgain[0]), 0
		look.Reset(0)
	}
	if e.bell.Detector != nil {
		begin() // a commit may be under way whose write came before the watch
	}
	for {
		writes := e.hint.events()
		if next < fastLooks {
			writes = nil // the kernel keeps further writes as one event
		}
		select {
		case <-e.quit:
			return
		case <-tick.C:
			moved := e.hint.renew()
			if e.rebind() || moved || e.changed() {
				e.bell.local.Wake()
			}
			tick.Reset(e.interval())
		case event := <-writes:
			e.hint.handle(event)
			begin()
		case <-e.hint.errors(): // for example an overflow: any event may be lost
			e.hint.handle(fsnotify.Event{Op: fsnotify.Remove})
			begin()
		case <-look.C:
			if next == len(lookAgain) {
				continue
			}
			if next >= slowLooks || !e.rang() {
				if e.changed() {
					e.bell.local.Wake()
				}
			}
			if next++; next < len(lookAgain) {
				look.Reset(lookAgain[next] - time.Since(began))
			}
		}
	}
}

// interval returns the time to the next look without a sign. With a socket and a watched file these looks are only a
// safeguard. Waking up for them is most of the cost of a waiter, so all waiters of a machine wake at the same time,
// when a daemon is awake anyway.
func (e *ear) interval() time.Duration {
	if e.socket != nil && e.hint.watching() {
		return orchestrator.Until(5 * e.bell.poll)
	}
	return e.bell.poll
}

// nap sleeps for less than a millisecond, which is the shortest time of a timer in a program that is otherwise idle.
// A signal may end the sleep early.
func nap(d time.Duration) {
	timeout := unix.NsecToTimeval(d.Nanoseconds())
	unix.Select(0, nil, nil, nil, &timeout)
}

// rebind creates a new socket if there is none, or if somebody removed its name. Rings sent in between are lost.
func (e *ear) rebind() (bound bool) {
	if e.socket != nil {
		if info, err := os.Lstat(filepath.Join(e.bell.folder, e.name)); err == nil && info.Mode()&fs.ModeSocket != 0 {
			return false
		}
		e.unbind()
	}
	return e.bind()
}

// bind creates the socket, and the folder if necessary, unless the database is gone. It tries several times, because
// the last listener of another process may remove the folder whenever the folder is empty.
func (e *ear) bind() (bound bool) {
	if e.bell.Exists != nil && !e.bell.Exists() {
		return false
	}
	for range 5 {
		if err := os.Mkdir(e.bell.folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return false
		}
		name := strings.ToLower(rand.Text())[:13] // 65 random bits
		socket, err := listenIn(e.bell.folder, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false
		}
		e.socket, e.name = socket, name
		e.bell.own.Store(&name)
		orchestrator.GoSafe("bell socket", e.bell.log, func() { e.bell.hear(socket) })
		return true
	}
	return false
}

func listenIn(folder, name string) (*net.UnixConn, error) {
	dir, err := openBellFolder(folder)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	address := socketAddress(folder, dir, name)
	if address == "" {
		return nil, unix.ENAMETOOLONG
	}
	return net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
}

// unbind closes the socket and removes its name. It also removes the folder if no other socket is left.
func (e *ear) unbind() {
	if e.socket == nil {
		return
	}
	e.bell.own.Store(nil)
	os.Remove(filepath.Join(e.bell.folder, e.name))
	unix.Rmdir(e.bell.folder)
	e.socket.Close()
	e.socket = nil
}

// hear wakes the listeners for each datagram until the socket is closed.
func (b *Sockets) hear(socket *net.UnixConn) {
	var ring [maxRing]byte
	for {
		n, err := socket.Read(ring[:])
		if err != nil {
			return
		}
		b.local.Wake(recipientsOf(ring[:n])...)
		b.rang.Store(time.Now().UnixNano())
	}
}
