package bell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// deafBell returns a bell whose listeners receive only rings: it has no poll and no hint.
func deafBell(path string) *Sockets {
	b := New(path, slog.Default())
	b.poll = time.Hour
	b.wal = path + "-no-wal"
	return b
}

// detect returns a detector that uses one function.
func detect(changed func() bool) func() (func() bool, func()) {
	return func() (func() bool, func()) { return changed, func() {} }
}

func listen(t testing.TB, b orchestrator.Bell) <-chan bool {
	t.Helper()
	rings, stop, err := b.Listen(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return rings
}

func TestBellWithinOneProcess(t *testing.T) {
	t.Parallel()
	bell := deafBell(filepath.Join(t.TempDir(), "a.db"))
	one, two := listen(t, bell), listen(t, bell)
	if names, _ := os.ReadDir(bell.folder); len(names) != 1 {
		t.Errorf("two listeners of one process have %d sockets", len(names))
	}
	bell.Ring()
	if len(one) == 0 || len(two) == 0 { // at once: a process does not ring itself through a socket
		t.Error("the process does not hear itself")
	}
}

func TestBellFarDownInTheFileSystem(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("a path too long for a socket has no bell here")
		return
	}
	folder := filepath.Join(t.TempDir(), strings.Repeat("deep", 30), strings.Repeat("down", 30))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "a.db")
	listener := deafBell(path)
	rings := listen(t, listener)
	deafBell(path).Ring()
	<-rings
}

func TestBellCleansUp(t *testing.T) {
	t.Parallel()
	bell := deafBell(filepath.Join(t.TempDir(), "a.db"))
	bell.Ring() // nobody has ever listened: Ring has nothing to do, and creates nothing
	if _, err := os.Stat(bell.folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ringing made a folder: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, stopOne, err := bell.Listen(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	_, stopTwo, err := bell.Listen(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(bell.folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is not for its owner alone: %v %v", info, err)
	}
	cancel()
	stopOne() // waits for what the end of the context started
	if names, _ := os.ReadDir(bell.folder); len(names) != 1 {
		t.Errorf("%d sockets while one listens", len(names))
	}
	stopTwo()
	if _, err := os.Stat(bell.folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder stays when nobody listens: %v", err)
	}
	rings := listen(t, bell)
	deafBell(strings.TrimSuffix(bell.folder, "-bell")).Ring()
	<-rings
}

// bindIn binds a socket that nobody reads in a bell's folder.
func bindIn(t *testing.T, folder, name string) *net.UnixConn {
	t.Helper()
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	c, err := listenIn(folder, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestBellRemovesTheNamesOfTheDead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	bell := deafBell(path)
	for _, name := range []string{"dead", "dying", "living"} {
		c := bindIn(t, bell.folder, name)
		if name != "living" {
			c.Close()
		}
	}
	if err := os.WriteFile(filepath.Join(bell.folder, "a file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Minute)
	for _, name := range []string{"dead", "living", "a file"} {
		if err := os.Chtimes(filepath.Join(bell.folder, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	bell.Ring()
	entries, err := os.ReadDir(bell.folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, ", "); got != "a file, dying, living" {
		t.Errorf("left after the ring: %s", got)
	}
}

// TestBellRingsNoSocketElsewhere checks that a link in the folder makes the bell ring no other socket. Such a link
// may come with a database that somebody else has packed.
func TestBellRingsNoSocketElsewhere(t *testing.T) {
	t.Parallel()
	bell, other := deafBell(filepath.Join(t.TempDir(), "a.db")), filepath.Join(t.TempDir(), "other")
	here, elsewhere := bindIn(t, bell.folder, "here"), bindIn(t, other, "elsewhere")
	if err := os.Symlink(filepath.Join(other, "elsewhere"), filepath.Join(bell.folder, "link")); err != nil {
		t.Fatal(err)
	}
	bell.Ring()
	for c, rung := range map[*net.UnixConn]bool{here: true, elsewhere: false} {
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		raw.Read(func(fd uintptr) bool {
			got, _, err = unix.Recvfrom(int(fd), make([]byte, 16), unix.MSG_DONTWAIT)
			return true
		})
		if (got > 0) != rung {
			t.Errorf("the socket %s got %d bytes, %v", c.LocalAddr(), got, err)
		}
	}
}

func TestBellDoesNotWaitForAListenerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	bell := deafBell(path)
	bindIn(t, bell.folder, "sleeper")
	for range 100 { // the queue holds about ten
		bell.Ring()
	}
	rings := listen(t, deafBell(path))
	bell.Ring()
	<-rings
}

func TestBellNameRemovedIsMadeAgain(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"name", "folder"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.db")
			listener := deafBell(path)
			listener.poll = time.Millisecond
			listener.Detector = detect(func() bool { return false }) // so that the poll does not ring
			rings := listen(t, listener)
			before := *listener.own.Load()
			gone := filepath.Join(listener.folder, before)
			if what == "folder" {
				gone = listener.folder
			}
			// A rename is atomic; the listener may bind a new name at any time.
			if err := os.Rename(gone, filepath.Join(t.TempDir(), "gone")); err != nil {
				t.Fatal(err)
			}
			<-rings // rings in between were lost, so the listener wakes once
			if after := *listener.own.Load(); after == before {
				t.Error("the name is the old one")
			}
			deafBell(path).Ring()
			<-rings
		})
	}
}

func TestBellWhereNoSocketCanBe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	listener := deafBell(path)
	if err := os.WriteFile(listener.folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	committed := make(chan struct{})
	listener.poll = time.Millisecond
	listener.Detector = detect(func() bool {
		select {
		case <-committed:
			return true
		default:
			return false
		}
	})
	rings := listen(t, listener)
	deafBell(path).Ring()
	if len(rings) > 0 {
		t.Error("heard a ring although nothing was committed")
	}
	committed <- struct{}{}
	<-rings // from the poll
	if err := os.Remove(listener.folder); err != nil {
		t.Fatalf("the file that was in the way is gone: %v", err)
	}
	<-rings // now there is a socket
	deafBell(path).Ring()
	<-rings
}

func TestBellPollRingsWhenItCannotTell(t *testing.T) {
	t.Parallel()
	bell := deafBell(filepath.Join(t.TempDir(), "a.db"))
	bell.poll = time.Millisecond
	rings := listen(t, bell)
	<-rings
	<-rings
}

func TestBellReleasesItsDetector(t *testing.T) {
	t.Parallel()
	bell := deafBell(filepath.Join(t.TempDir(), "a.db"))
	began, ended := 0, 0
	bell.Detector = func() (func() bool, func()) {
		began++
		return func() bool { return ended < began }, func() { ended++ }
	}
	for range 2 {
		_, stopOne, _ := bell.Listen(t.Context(), "")
		_, stopTwo, _ := bell.Listen(t.Context(), "")
		stopOne()
		stopTwo()
		if began != ended {
			t.Errorf("%d detectors began, %d ended", began, ended)
		}
	}
	if began != 2 {
		t.Errorf("listening twice, two at a time, took %d detectors", began)
	}
}

// BenchmarkRing measures ringing with a number of other processes listening. Their queues are full, since reading
// the queues would take the listeners' time.
func BenchmarkRing(b *testing.B) {
	for _, listeners := range []int{0, 1, 8} {
		b.Run(fmt.Sprintf("listeners=%d", listeners), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "a.db")
			for range listeners {
				listen(b, deafBell(path))
			}
			bell := deafBell(path)
			for b.Loop() {
				bell.Ring()
			}
		})
	}
}

// TestRingerLearnsOfNewListeners checks that the ringer's copy of the folder never makes it miss a listener that is
// new, or a folder that was created again, since the last ring, however fast they change.
func TestRingerLearnsOfNewListeners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	ringing := deafBell(path)
	defer ringing.ringer.close()
	stays := make([]func(), 0, 100)
	for i := range 100 {
		rings, stop, err := deafBell(path).Listen(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		ringing.Ring()
		<-rings
		if i%3 == 0 {
			stays = append(stays, stop)
			continue
		}
		stop()
		if i%10 == 9 {
			for _, stop := range stays {
				stop() // the last one removes the folder
			}
			stays = stays[:0]
		}
	}
	for _, stop := range stays {
		stop()
	}
	ringing.ringer.close()
	rings := listen(t, deafBell(path))
	ringing.Ring()
	<-rings
}

// TestRingerLearnsOfTheFirstListener checks that a ringer that never had a listener rings for the first one, even if
// the folder above was removed and created again.
func TestRingerLearnsOfTheFirstListener(t *testing.T) {
	t.Parallel()
	above := filepath.Join(t.TempDir(), "above")
	ringing := deafBell(filepath.Join(above, "a.db"))
	defer ringing.ringer.close()
	for range 3 {
		if err := os.Mkdir(above, 0o700); err != nil {
			t.Fatal(err)
		}
		ringing.Ring()
		bell := deafBell(filepath.Join(above, "a.db"))
		rings, stop, err := bell.Listen(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		ringing.Ring()
		<-rings
		stop()
		bell.Close()
		if err := os.RemoveAll(above); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRingsReachWhomTheyName checks that a ring for one recipient reaches those who listen for that recipient or for
// everything, in this process and, as a datagram, in others. A ring with too many names reaches everybody.
func TestRingsReachWhomTheyName(t *testing.T) {
	t.Parallel()
	var l store.Listeners
	coder, writer, all := l.Add("coder"), l.Add("writer"), l.Add("")
	next := func(rings chan bool) string {
		select {
		case named := <-rings:
			if named {
				return "named"
			}
			return "rung"
		default:
			return ""
		}
	}
	var many []string
	for i := range maxRing / 8 {
		many = append(many, fmt.Sprintf("agent%04d", i))
	}
	for _, test := range []struct {
		recipients         []string
		coder, writer, all string
	}{
		{[]string{"coder"}, "named", "", "rung"},
		{[]string{"writer", "coder"}, "named", "named", "rung"},
		{[]string{"nobody"}, "", "", "rung"},
		{nil, "rung", "rung", "rung"},
		{many, "rung", "rung", "rung"},
	} {
		l.Wake(recipientsOf(ringOf(test.recipients))...)
		if c, w, a := next(coder), next(writer), next(all); c != test.coder || w != test.writer || a != test.all {
			t.Errorf("a ring for %v: coder %q, writer %q, all %q", test.recipients, c, w, a)
		}
	}
	if l.Remove("coder", coder) != 2 || l.Remove("", all) != 1 || l.Remove("writer", writer) != 0 {
		t.Error("the listeners are miscounted")
	}
}
