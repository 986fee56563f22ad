package listener

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"mailroom/orchestrator"
)

// Socket is a Unix socket for processes of this machine that cannot reach an address, such as those in a container
// into which the socket is mounted.
type Socket struct {
	Path  string // absolute
	Group string // group that may connect, in addition to this user; "" for none
}

// MaxSocket is the maximum length of a socket's path on all systems, in bytes.
const MaxSocket = 100

// listen binds the socket, replacing a socket file that nobody serves any more. It returns invalid_params or
// unavailable on failure.
func (o *Socket) listen() (net.Listener, error) {
	if !filepath.IsAbs(o.Path) || len(o.Path) > MaxSocket {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the path of a socket must be absolute and have at most %d bytes, but is %s", MaxSocket, o.Path).
			WithHint("Choose another path with --socket PATH, or turn the socket off with --socket off")
	}
	group, err := o.gid()
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "socket-group: %v", err)
	}
	refused := func(err error) error {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot listen at " + o.Path, Err: err,
			Hint: "Choose another path with --socket PATH, or turn the socket off with --socket off"}
	}
	switch info, err := os.Lstat(o.Path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, refused(err)
	case info.Mode().Type() != os.ModeSocket:
		return nil, refused(errors.New("the file exists and is not a socket"))
	case !deadSocket(o.Path):
		return nil, refused(ErrInUse)
	}
	sweepHidden(filepath.Dir(o.Path))
	// The socket gets its name only after its permissions are set, so that nobody can connect before.
	folder, err := os.MkdirTemp(filepath.Dir(o.Path), hiddenPrefix)
	if err != nil {
		return nil, refused(err)
	}
	defer os.RemoveAll(folder)
	hidden := filepath.Join(folder, hiddenName)
	listener, err := net.Listen("unix", hidden)
	if err != nil {
		return nil, refused(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	mode := os.FileMode(0o600)
	if o.Group != "" {
		mode, err = 0o660, os.Chown(hidden, -1, group)
	}
	if err == nil {
		err = os.Chmod(hidden, mode)
	}
	var info os.FileInfo
	if err == nil {
		info, err = os.Lstat(hidden)
	}
	if err == nil {
		err = os.Rename(hidden, o.Path)
	}
	if err != nil {
		listener.Close()
		return nil, refused(err)
	}
	return &socketListener{listener, o.Path, info}, nil
}

// A socket is created under a temporary name in a folder of its own. The temporary path is hardly longer than the
// final one.
const hiddenPrefix, hiddenName = ".s", "s"

// sweepHidden removes sockets with temporary names that nobody serves, which a killed daemon has left.
func sweepHidden(in string) {
	entries, _ := os.ReadDir(in)
	for _, e := range entries {
		path := filepath.Join(in, e.Name(), hiddenName)
		if !strings.HasPrefix(e.Name(), hiddenPrefix) {
			continue
		}
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket && deadSocket(path) {
			os.Remove(path)
			os.Remove(filepath.Dir(path))
		}
	}
}

// deadSocket reports whether nobody serves a socket. A socket with a full queue, for example, still counts as served.
func deadSocket(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// ErrInUse is the error for a socket that another process serves.
var ErrInUse = errors.New("another daemon uses the socket")

// gid returns the ID of the group, or -1 if there is none.
func (o *Socket) gid() (int, error) {
	if o.Group == "" {
		return -1, nil
	}
	group, err := user.LookupGroup(o.Group)
	if err != nil {
		return -1, err
	}
	return strconv.Atoi(group.Gid)
}

// socketListener removes its file when it is closed, unless another socket has replaced the file.
type socketListener struct {
	net.Listener
	path string
	info os.FileInfo
}

// Close implements net.Listener.
func (l *socketListener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.info) {
		os.Remove(l.path)
	}
	return l.Listener.Close()
}

type uidKey struct{}

// WithUID stores the user ID of a connection's peer in the context of its requests, if that is known: see UIDOf.
func WithUID(ctx context.Context, c net.Conn) context.Context {
	if socket, is := c.(*net.UnixConn); is {
		if uid, known := uidOf(socket); known {
			return context.WithValue(ctx, uidKey{}, uid)
		}
	}
	return ctx
}

// UIDOf returns the ID of the user who sent a request over a socket.
func UIDOf(ctx context.Context) (uid int, known bool) {
	uid, known = ctx.Value(uidKey{}).(int)
	return uid, known
}
