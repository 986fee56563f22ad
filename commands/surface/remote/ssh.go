package remote

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"

	"mailroom/orchestrator"
)

// command is what ssh runs there. Nothing of a place is in it, so that no shell sees any of that.
const command = "mailroom remote"

// deaf runs ssh so that Ctrl-C, which the terminal sends to all, does not end it: the line there is told, and ends well.
const deaf = `trap "" INT; exec ssh "$@"`

// Dial connects to a place with the user's own ssh, which writes to stderr what it has to say. With batch it asks for
// nothing, where nobody could answer. Errors: unavailable, conflict.
func (p Place) Dial(ctx context.Context, stderr io.Writer, batch bool) (net.Conn, error) {
	args := []string{"-T"}
	if batch {
		args = append(args, "-o", "BatchMode=yes")
	}
	if p.Port != "" {
		args = append(args, "-p", p.Port)
	}
	cmd := exec.Command("sh", append([]string{"-c", deaf, "ssh"}, append(args, "--", p.where(), command)...)...)
	cmd.Stderr, cmd.WaitDelay = stderr, time.Second
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
