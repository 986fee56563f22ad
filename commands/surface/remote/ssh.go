package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
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
	const named = 1 + 2*sha1.Size // bytes that ssh puts in place of /%C
	if d.Folder != "" && len(d.Folder)+named <= maxSocket && !strings.ContainsAny(d.Folder, "%\"") {
		flags = append(flags, "-o", "ControlMaster=auto", "-o", "ControlPersist="+keptFor, "-o", `ControlPath="`+d.Folder+`/%C"`)
	}
	return flags
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
	apart(cmd)
	cmd.Stderr = &said
	conn, err := p.connect(ctx, cmd)
	asks := func(words string) bool { return strings.Contains(said.String(), words) }
	if err != nil && !d.Batch && ctx.Err() == nil && slices.ContainsFunc(wantsPerson, asks) {
		cmd = exec.Command("sh", append([]string{"-c", deaf, "ssh"}, append(d.flags(p, false), "--", p.where(), command)...)...)
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
		WithHint("`ssh %s mailroom --version` must print a version: have Mailroom there, in the PATH of a shell that runs one command", orchestrator.ShellWord(p.where()))
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
