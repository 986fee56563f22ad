package remote

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/orchestrator/process"
)

// A holder is a background process that keeps an ssh connection, and the program at its other end, for all command
// lines of its user. Without a holder, each line would wait for a handshake and for a shell on the other machine. A
// holder listens on a socket and exits when nobody has used it for a while.

// keptFor is how long an unused connection is kept.
const keptFor = 5 * time.Minute

// HoldFlag makes `mailroom remote` a holder for the place in its value. HeldFlag makes it use an inherited
// connection.
const (
	HoldFlag = "hold"
	HeldFlag = "held"
)

// socket returns the path of the socket of a place's holder, or "" if there can be no holder.
func (d *Dialing) socket(p Place) string {
	name := sha256.Sum256([]byte(p.where() + " " + p.Port))
	socket := filepath.Join(d.Folder, hex.EncodeToString(name[:8]))
	if d.Folder == "" || len(socket) > listener.MaxSocket {
		return ""
	}
	return socket
}

// held connects to the holder of a place. It returns nil if there is none.
func (d *Dialing) held(p Place) net.Conn {
	if socket := d.socket(p); socket != "" {
		if conn, err := net.Dial("unix", socket); err == nil {
			return conn
		}
	}
	return nil
}

// Warm reports whether a place can be reached without waiting for a handshake. If not, Warm starts a holder that
// connects in the background, and waits for it until ctx ends.
func (p Place) Warm(ctx context.Context, d Dialing) bool {
	if p.Scheme != "ssh" {
		return true
	}
	conn := d.held(p)
	if conn == nil && d.socket(p) != "" {
		conn = d.start(ctx, p)
	}
	if conn != nil {
		conn.Close()
	}
	return conn != nil
}

// leave passes the connection to a new holder and returns a connection to that holder, or nil if there can be none.
func (c *pipeConn) leave(ctx context.Context, p Place, d Dialing) net.Conn {
	if d.socket(p) == "" {
		return nil
	}
	conn := d.start(ctx, p, c.files...)
	if conn != nil {
		for _, file := range c.files {
			file.Close()
		}
	}
	return conn
}

// start starts a holder of a place and connects to it once it listens. files are those of an existing connection,
// which the holder takes over. start returns nil if the holder has no connection before ctx ends.
func (d *Dialing) start(ctx context.Context, p Place, files ...*os.File) net.Conn {
	own, err := os.Executable()
	if err != nil {
		return nil
	}
	cmd := exec.Command(own, "remote", "--"+HoldFlag, p.String())
	cmd.Dir, cmd.ExtraFiles, cmd.Env = d.Folder, files, append(os.Environ(), "MAILROOM_DB=")
	if files != nil {
		cmd.Args = append(cmd.Args, "--"+HeldFlag)
	}
	process.SetApart(cmd)
	listens, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	orchestrator.GoSafe("holder", nil, func() { cmd.Process.Wait() }) // the holder outlives this process
	said := make(chan error, 1)
	orchestrator.GoSafe("holder", nil, func() {
		_, err := bufio.NewReader(listens).ReadByte()
		said <- err
	})
	select {
	case err = <-said:
	case <-ctx.Done():
		err = ctx.Err()
	}
	listens.Close()
	if err != nil {
		return nil
	}
	return d.held(p)
}

// Hold keeps a connection to a place until nobody has used it for a while, the connection is lost, or ctx ends. It
// writes a line to out once it accepts connections. has is an existing connection; if has is nil, Hold connects.
func (p Place) Hold(ctx context.Context, d Dialing, out io.Writer, has net.Conn) error {
	socket := d.socket(p)
	if socket == "" {
		return orchestrator.Errorf(orchestrator.Unavailable, "no folder is available for the socket")
	}
	if has == nil {
		conn, err := p.login(ctx, d)
		if err != nil {
			return err
		}
		has = conn
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	if other := d.held(p); other != nil { // another holder was faster
		other.Close()
		return has.Close()
	}
	os.Remove(socket) // left by a holder that was killed
	accepts, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	h := &holder{has: &heldConn{has, end}, end: end, socket: socket, used: time.Now()}
	if h.ours, err = os.Lstat(socket); err != nil {
		return err
	}
	accepts.(*net.UnixListener).SetUnlinkOnClose(false)
	defer func() {
		if h.reachable() {
			os.Remove(socket)
		}
	}()
	server := &http.Server{Handler: h.handler(), Protocols: new(http.Protocols), HTTP2: listener.Alive()}
	server.Protocols.SetUnencryptedHTTP2(true)
	defer server.Close()
	defer context.AfterFunc(ctx, func() { accepts.Close() })()
	orchestrator.GoSafe("holder", nil, func() { h.watch(ctx) })
	if _, err := io.WriteString(out, "\n"); err != nil {
		return err
	}
	server.Serve(accepts)
	return nil
}

// holder forwards requests over one connection.
type holder struct {
	has    net.Conn
	end    context.CancelFunc
	socket string
	ours   os.FileInfo // file info of the socket

	mu   sync.Mutex
	open int       // number of open requests
	used time.Time // when the last request ended
}

// looksEvery is the interval at which a holder checks whether it is still needed.
const looksEvery = 5 * time.Second

// watch ends the holder if nobody has used it for a while, or nobody can reach it.
func (h *holder) watch(ctx context.Context) {
	for ticks := time.NewTicker(looksEvery); ; {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		idle := h.open == 0 && (time.Since(h.used) > keptFor || !h.reachable())
		h.mu.Unlock()
		if idle {
			h.end()
		}
	}
}

// reachable reports whether the socket still exists and belongs to this holder.
func (h *holder) reachable() bool {
	now, err := os.Lstat(h.socket)
	return err == nil && os.SameFile(h.ours, now)
}

// handler returns a handler that forwards and counts requests.
func (h *holder) handler() http.Handler {
	var once sync.Once
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: listener.Alive(), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	transport.DialContext = func(context.Context, string, string) (conn net.Conn, err error) {
		err = orchestrator.Errorf(orchestrator.Unavailable, "the connection was lost")
		once.Do(func() { conn, err = h.has, nil })
		return conn, err
	}
	there := &url.URL{Scheme: "http", Host: "localhost"}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(there) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) }}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.use(1)
		defer h.use(-1)
		proxy.ServeHTTP(rw, r)
	})
}

// use updates the number of open requests.
func (h *holder) use(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open += n
	h.used = time.Now()
}

// heldConn is the connection of a holder. Closing it ends the holder.
type heldConn struct {
	net.Conn
	end context.CancelFunc
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}
