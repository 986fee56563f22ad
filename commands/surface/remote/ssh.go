package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/process"
)

// command is what ssh runs there. Nothing of a place is in it, so that no shell sees any of that.
const command = "mailroom remote"

// Dialing is how Dial connects over ssh.
type Dialing struct {
	Err    io.Writer // where ssh writes what it has to say
	Batch  bool      // ssh asks for nothing: nobody could answer
	Folder string    // of the sockets at which holders are reached, see Hold; "" has none
}

// flags returns those of ssh. With batch it asks for nothing.
func (p Place) flags(batch bool) []string {
	flags := []string{"-T"}
	if batch {
		flags = append(flags, "-o", "BatchMode=yes")
	}
	if p.Port != "" {
		flags = append(flags, "-p", p.Port)
	}
	return append(flags, "--", p.where(), command)
}

// deaf runs ssh so that Ctrl-C, which a terminal sends to all of its programs, does not end it: the line there is told,
// and ends well.
const deaf = `trap "" INT; exec ssh "$@"`

// wantsPerson are what ssh prints where it could ask a person, and is not to.
var wantsPerson = []string{"Permission denied", "Host key verification failed"}

// overSSH connects through a holder of this user. If there is none, it connects by itself, and leaves the connection to a
// new one.
func (p Place) overSSH(ctx context.Context, d Dialing) (net.Conn, error) {
	if conn := d.held(p); conn != nil {
		return conn, nil
	}
	conn, err := p.login(ctx, d)
	if err != nil {
		return nil, err
	}
	if held := conn.leave(ctx, p, d); held != nil {
		return held, nil
	}
	return conn, nil
}

// login connects with the user's own ssh, which begins apart from the terminal, so that Ctrl-C does not reach it. Where it
// would have to ask the person it is run once more, and does.
func (p Place) login(ctx context.Context, d Dialing) (*pipeConn, error) {
	var said bytes.Buffer
	cmd := exec.Command("ssh", p.flags(true)...)
	process.SetApart(cmd)
	cmd.Stderr = &said
	conn, err := p.connect(ctx, cmd)
	asks := func(words string) bool { return strings.Contains(said.String(), words) }
	if err != nil && !d.Batch && ctx.Err() == nil && slices.ContainsFunc(wantsPerson, asks) {
		cmd = exec.Command("sh", append([]string{"-c", deaf, "ssh"}, p.flags(false)...)...)
		if runtime.GOOS == "windows" { // which has no sh
			cmd = exec.Command("ssh", p.flags(false)...)
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
func (p Place) connect(ctx context.Context, cmd *exec.Cmd) (*pipeConn, error) {
	cmd.WaitDelay = time.Second
	in, toSSH, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromSSH, out, err := os.Pipe()
	if err != nil {
		in.Close()
		toSSH.Close()
		return nil, err
	}
	cmd.Stdin, cmd.Stdout = in, out
	err = cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		toSSH.Close()
		fromSSH.Close()
		return nil, &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot run ssh", Err: err,
			Hint: "Install the OpenSSH client"}
	}
	ended := make(chan error, 1)
	orchestrator.GoSafe("ssh", nil, func() { ended <- cmd.Wait() })
	conn := &pipeConn{Reader: fromSSH, Writer: toSSH, files: []*os.File{toSSH, fromSSH}, close: func() error {
		toSSH.Close() // it ends by itself then
		select {
		case <-ended:
		case <-time.After(farewell):
			cmd.Process.Kill()
		}
		return fromSSH.Close()
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

// greeted reads up to the end of the greeting, and no byte more. Errors: unavailable, conflict.
func (c *pipeConn) greeted(p Place) error {
	var line []byte
	b := make([]byte, 1)
	for range maxNoise {
		if _, err := io.ReadFull(c, b); err != nil {
			break
		}
		if line = append(line, b[0]); b[0] != '\n' {
			continue
		}
		if _, rest, is := strings.Cut(string(line), greeting); is {
			var theirs int
			if _, err := fmt.Sscan(rest, &theirs); err != nil || theirs == version {
				return err
			}
			older := "the other machine"
			if theirs > version {
				older = "this machine"
			}
			return orchestrator.Errorf(orchestrator.Conflict, "Mailroom at %s uses version %d of the protocol, but this program uses version %d", p.where(), theirs, version).
				WithHint("Upgrade Mailroom on %s. The other machine reported: %s", older, plainText(strings.TrimSpace(rest)))
		}
		line = line[:0]
	}
	return orchestrator.Errorf(orchestrator.Unavailable, "cannot run mailroom over ssh at %s", p.where()).
		WithHint("If ssh printed an error, fix that error first. Otherwise, install Mailroom on that machine, in a folder that is in the PATH of non-interactive shells")
}

// pipeConn is a connection over two pipes.
type pipeConn struct {
	io.Reader
	io.Writer
	files []*os.File // to ssh, and from it
	close func() error
}

// NewConn returns a connection over two pipes.
func NewConn(in io.Reader, out io.Writer, closes func() error) net.Conn {
	return &pipeConn{Reader: in, Writer: out, close: closes}
}

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
