package main

import (
	"io"
	"os/exec"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// startTools starts `mailroom mcp` as a process that the test may end, and connects to it. in is its standard input.
func (o *office) startTools(agent, vocabulary string) (cmd *exec.Cmd, in io.WriteCloser, s *mcp.ClientSession) {
	o.t.Helper()
	cmd = o.command(mcpWords(agent, vocabulary, false)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, in, connect(o.t, &mcp.IOTransport{Reader: out, Writer: in})
}

// TestMCPClientGone: a host that closes the pipe of its server, or kills it, while an agent waits takes no message with it.
func TestMCPClientGone(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"closed", "killed"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "a", "b")
			cmd, in, s := o.startTools("a", "coral")
			answered := make(chan error, 1)
			go func() {
				_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait_for_mentions", Arguments: map[string]any{"waitFor": "b"}})
				answered <- err
			}()
			o.await(`SELECT count(*) FROM waits`, "1")
			want := 0
			if way == "closed" {
				in.Close()
			} else {
				cmd.Process.Kill()
				want = -1
			}
			if err := <-answered; err == nil {
				t.Error("the wait has an answer")
			}
			if got := exitStatus(t, cmd); got != want {
				t.Errorf("exit status %d; want %d", got, want)
			}
			o.run("send", "--sender", "b", "--recipient", "a", "--message-type", "note")
			if got := o.run("coral", "wait-for-mentions", "--as", "a"); got["count"] != 1.0 {
				t.Errorf("another waiter gets %v", got)
			}
		})
	}
}
