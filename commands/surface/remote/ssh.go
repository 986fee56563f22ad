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

// command is the command that ssh runs. It contains no part of a place, so no shell interprets such a part.
const command = "mailroom remote"

// Dialing configures how Dial connects over ssh.
type Dialing struct {
	Err    io.Writer // error output of ssh
	Batch  bool      // ssh asks no questions, because nobody can answer
	Folder string    // folder of the sockets of holders, see Hold; "" if there is none
}

// flags returns the arguments of ssh. With batch, ssh asks no questions.
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

// deaf runs ssh so that Ctrl-C, which a terminal sends to all of its programs, does not end it. The line on the other
// machine receives the signal instead and can end properly.
const deaf = `trap "" INT; exec ssh "$@"`

// wantsPerson lists messages of ssh that mean that it would have to ask a person.
var wantsPerson = []string{"Permission denied", "Host key verification failed"}

// overSSH connects through a holder of this user. If there is none, it connects directly and passes the connection to
// a new holder.
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

// login connects with the user's own ssh, which runs apart from the terminal so that Ctrl-C does not reach it. If ssh
// would have to ask the person, login runs it again on the terminal.
func (p Place) login(ctx context.Context, d Dialing) (*pipeConn, error) {
	var said bytes.Buffer
	cmd := exec.Command("ssh", p.flags(true)...)
	process.SetApart(cmd)
	cmd.Stderr = &said
	conn, err := p.connect(ctx, cmd)
	asks := func(words string) bool { return strings.Contains(said.String(), words) }
	if err != nil && !d.Batch && ctx.Err() == nil && slices.ContainsFunc(wantsPerson, asks) {
		cmd = exec.Command("sh", append([]string{"-c", deaf, "ssh"}, p.flags(false)...)...)
		if runtime.GOOS == "windows" { // Windows has no sh
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

// connect starts ssh and waits for the greeting.
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
		toSSH.Close() // makes ssh exit
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

// maxNoise is the maximum number of bytes before the greeting.
const maxNoise = 64 << 10

// greeted reads up to the end of the greeting, and no further. It returns unavailable or conflict on failure.
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
	files []*os.File // to ssh, and from ssh
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

// SetDeadline implements net.Conn. It does nothing, since pipes have no deadlines.
func (c *pipeConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn. It does nothing.
func (c *pipeConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn. It does nothing.
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil }

// pipeAddr is a placeholder, since pipes have no address.
type pipeAddr struct{}

// Network implements net.Addr.
func (pipeAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (pipeAddr) String() string { return "pipe" }
