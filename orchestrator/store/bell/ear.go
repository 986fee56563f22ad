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

// ear is how one process hears the bell of a database. It wakes the process's listeners
//   - when its socket gets a datagram: the sender has committed;
//   - after the -wal file was written to: somebody may be about to commit, perhaps by plain SQL (see lookAgain);
//   - from time to time without any sign, because signs can be missed.
//
// In the last two cases it wakes nobody if the bell's detector says that nothing was committed.
type ear struct {
	bell    *Sockets
	socket  *net.UnixConn // nil: none could be made yet
	name    string        // of the socket, in the bell's folder
	hint    *walHint
	changed func() bool // whether anything may have been committed since it was last asked
	release func()      // ends changed
	quit    chan struct{}
	done    chan struct{}
}

// lookAgain says when to look after the -wal file was written to: the write comes before the commit is visible, by the
// time of an fsync where a commit waits for one. During the first fastLooks of them further writes start nothing new,
// which bounds the cost of a busy database, this process's own commits included, to a few hundred looks per second.
var lookAgain = [...]time.Duration{
	200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, // a fast disk
	25 * time.Millisecond, 100 * time.Millisecond, // a slow one
}

const fastLooks = 3

// The first looks, up to slowLooks, are left out when a ring was made or heard just now: it has most likely told of the
// same write already, and whoever was rung needs the processor.
const slowLooks = 2

// rang reports whether there was a ring within the time of the first looks.
func (e *ear) rang() bool {
	return time.Since(time.Unix(0, e.bell.rang.Load())) < lookAgain[slowLooks]
}

// openEar begins to listen. Commits from now on are heard.
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

// close ends the ear and waits until it has cleaned up.
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
	var began time.Time    // of the looks under way
	next := len(lookAgain) // the next one; none are under way
	begin := func() {
		nap(lookAgain[0])
		began, next = time.Now().Add(-lookAgain[0]), 0
		look.Reset(0)
	}
	if e.bell.Detector != nil {
		begin() // a commit may be under way whose write we did not see
	}
	for {
		writes := e.hint.events()
		if next < fastLooks {
			writes = nil // the kernel keeps what comes, as one
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
		case <-e.hint.errors(): // such as an overflow: anything may have happened
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

// interval is the time to the next look without any sign. With a socket and a file to watch it is there for what nobody
// foresaw. To wake up for it is most of what a waiter costs, so all waiters of a machine do that at the same time, when a
// daemon is awake anyway.
func (e *ear) interval() time.Duration {
	if e.socket != nil && e.hint.watching() {
		return orchestrator.Until(5 * e.bell.poll)
	}
	return e.bell.poll
}

// nap sleeps for less than a millisecond, which is the least that a timer takes in a program that is otherwise idle. A
// signal may end it early.
func nap(d time.Duration) {
	timeout := unix.NsecToTimeval(d.Nanoseconds())
	unix.Select(0, nil, nil, nil, &timeout)
}

// rebind makes a new socket if there is none, or if somebody removed its name. What was rung meanwhile was not heard.
func (e *ear) rebind() (bound bool) {
	if e.socket != nil {
		if info, err := os.Lstat(filepath.Join(e.bell.folder, e.name)); err == nil && info.Mode()&fs.ModeSocket != 0 {
			return false
		}
		e.unbind()
	}
	return e.bind()
}

// bind makes the socket, and the folder if need be, unless the database is gone. The last listener of another process
// may remove the folder at any time as long as it is empty, so it tries again a few times.
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

// unbind closes the socket and removes its name, and the folder if it was the last.
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

// hear wakes the listeners for each datagram that comes, until the socket is closed.
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
