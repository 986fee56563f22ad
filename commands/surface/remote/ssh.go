package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/process"
)

// command is what ssh runs there. Nothing of a place is in it, so that no shell sees any of that.
const command = "mailroom remote"

// Dialing is how Dial connects.
type Dialing struct {
	Err   io.Writer // where ssh writes what it has to say
	Batch bool      // ssh asks for nothing: nobody could answer
	// Folder of the sockets over which a process of ssh keeps a connection, for keptFor after its last use, so that
	// further command lines begin without a handshake; "" keeps none
	Folder string
}

// keptFor is how long a connection is kept that nobody uses.
const keptFor = "5m"

// maxSocket bounds the path of a socket, to which ssh adds 17 bytes for a moment.
const maxSocket = 104 - 17

// flags returns those of ssh. With batch it asks for nothing.
func (d *Dialing) flags(p Place, batch bool) []string {
	flags := []string{"-T"}
	if batch {
		flags = append(flags, "-o", "BatchMode=yes")
	}
	if p.Port != "" {
		flags = append(flags, "-p", p.Port)
	}
	if socket := d.socket(p); socket != "" {
		flags = append(flags, "-o", "ControlMaster=auto", "-o", "ControlPersist="+keptFor, "-o", `ControlPath="`+socket+`"`)
	}
	return flags
}

// socket is where the kept connection to a place is reached; "" if none is kept.
func (d *Dialing) socket(p Place) string {
	name := sha1.Sum([]byte(p.where() + " " + p.Port))
	socket := filepath.Join(d.Folder, hex.EncodeToString(name[:8]))
	if d.Folder == "" || len(socket) > maxSocket || strings.ContainsAny(socket, "%\"") {
		return ""
	}
	return socket
}

// warmAgain is how often Warm looks for a connection that is being made.
const warmAgain = 20 * time.Millisecond

// Warm reports whether there is a kept connection to a place. If there is none, it has ssh make one in the background, and
// waits for it until ctx ends.
func (p Place) Warm(ctx context.Context, d Dialing) bool {
	socket := d.socket(p)
	if socket == "" {
		return false
	}
	if reached(socket) {
		return true
	}
	cmd := exec.Command("ssh", append(d.flags(p, true), "-f", "-N", "--", p.where())...)
	process.SetApart(cmd)
	if cmd.Start() != nil {
		return false
	}
	orchestrator.GoSafe("ssh", nil, func() { cmd.Wait() })
	for again := time.NewTicker(warmAgain); ; {
		select {
		case <-again.C:
			if reached(socket) {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// reached reports whether a process listens at a socket.
func reached(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// deaf runs ssh so that Ctrl-C, which a terminal sends to all of its programs, does not end it: the line there is told,
// and ends well.
const deaf = `trap "" INT; exec ssh "$@"`

// wantsPerson are what ssh says where it could ask a person, and is not to.
var wantsPerson = []string{"Permission denied", "Host key verification failed"}

// Dial connects to a place with the user's own ssh, which begins apart from the terminal, so that Ctrl-C does not reach
// it. Where it would have to ask the person it is run once more, and does. Errors: unavailable, conflict.
func (p Place) Dial(ctx context.Context, d Dialing) (net.Conn, error) {
	var said bytes.Buffer
	cmd := exec.Command("ssh", append(d.flags(p, true), "--", p.where(), command)...)
	process.SetApart(cmd)
	cmd.Stderr = &said
	conn, err := p.connect(ctx, cmd)
	asks := func(words string) bool { return strings.Contains(said.String(), words) }
	if err != nil && !d.Batch && ctx.Err() == nil && slices.ContainsFunc(wantsPerson, asks) {
		cmd = exec.Command("sh", append([]string{"-c", deaf, "ssh"}, append(d.flags(p, false), "--", p.where(), command)...)...)
		if runtime.GOOS == "windows" { // which has no sh
			cmd = exec.Command("ssh", append(d.flags(p, false), "--", p.where(), command)...)
		}
		cmd.Stderr = d.Err
		return p.connect(ctx, cmd)
	}
	if err != nil {
		(&plain{out: d.Err}).Write(said.Bytes())
	}
	return conn, err
}

// connect starts ssh, and waits for the greeting.
func (p Place) connect(ctx context.Context, cmd *exec.Cmd) (net.Conn, error) {
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, &orchestrator.Error{Code: orchestrator.Unavailable, Message: "ssh cannot be run", Err: err,
			Hint: "Install OpenSSH's client"}
	}
	conn := &pipeConn{reader: bufio.NewReaderSize(out, maxChunk), Writer: in, close: func() error {
		in.Close() // it ends by itself then
		ended := make(chan error, 1)
		orchestrator.GoSafe("ssh", nil, func() { ended <- cmd.Wait() })
		select {
		case <-ended:
		case <-time.After(farewell):
			cmd.Process.Kill()
		}
		return nil
	}}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	err = conn.greeted(p)
	stop()
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// maxNoise bounds the bytes before the greeting.
const maxNoise = 64 << 10

// greeted reads up to the end of the greeting. Errors: unavailable, conflict.
func (c *pipeConn) greeted(p Place) error {
	for read := 0; read < maxNoise; {
		line, err := c.reader.ReadString('\n')
		read += len(line)
		if _, rest, is := strings.Cut(line, greeting); is && err == nil {
			var theirs int
			if _, err := fmt.Sscan(rest, &theirs); err != nil || theirs == version {
				return err
			}
			older := "there"
			if theirs > version {
				older = "here"
			}
			return orchestrator.Errorf(orchestrator.Conflict, "the program at %s speaks version %d of the protocol, and this one version %d", p.where(), theirs, version).
				WithHint("Upgrade the one %s: %s", older, strings.TrimSpace(rest))
		}
		if err != nil {
			break
		}
	}
	return orchestrator.Errorf(orchestrator.Unavailable, "mailroom does not answer at %s", p.where()).
		WithHint("Have Mailroom there, in the PATH of a shell that runs one command")
}

// pipeConn is a connection over two pipes.
type pipeConn struct {
	reader *bufio.Reader
	io.Writer
	close func() error
}

// NewConn returns a connection over two pipes.
func NewConn(in io.Reader, out io.Writer, closes func() error) net.Conn {
	return &pipeConn{reader: bufio.NewReaderSize(in, maxChunk), Writer: out, close: closes}
}

// Read implements net.Conn.
func (c *pipeConn) Read(b []byte) (int, error) { return c.reader.Read(b) }

// Close implements net.Conn.
func (c *pipeConn) Close() error { return c.close() }

// LocalAddr implements net.Conn.
func (c *pipeConn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr implements net.Conn.
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline implements net.Conn. A pipe has none.
func (c *pipeConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (c *pipeConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil }

// pipeAddr is the address of a pipe, which has none.
type pipeAddr struct{}

// Network implements net.Addr.
func (pipeAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (pipeAddr) String() string { return "pipe" }
