package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator/orchestratortest/enginetest"
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
	return cmd, in, dialMCP(o.t, &mcp.IOTransport{Reader: out, Writer: in})
}

// TestMCPClientGone checks that a host that closes the pipe of its server, or kills it, while an agent waits, loses
// no message.
func TestMCPClientGone(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"closed", "killed"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "a", "b")
			cmd, in, s := o.startTools("a", "coral")
			answered := make(chan error, 1)
			go func() {
				_, err := s.CallTool(t.Context(),
					&mcp.CallToolParams{Name: "wait_for_mentions", Arguments: map[string]any{"waitFor": "b"}})
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

// TestMCPNobodyReads checks that a server whose client no longer reads ends as with SIGPIPE, without a message,
// although its standard input stays open, and that messages it could not hand out are unread.
func TestMCPNobodyReads(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	o.run("send", "--sender", "b", "--recipient", "a", "--message-type", "note", "--payload", `"fragile"`)
	for name, after := range map[string]int{"at once": 0, "after the first answer": 1} {
		cmd := o.command(mcpWords("a", "relay", false)...)
		var says strings.Builder
		cmd.Stderr = &says
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if after == 0 {
			out.Close()
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		io.WriteString(in,
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n")
		if after == 1 {
			if _, err := bufio.NewReaderSize(out, 16).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			out.Close()
		}
		io.WriteString(in,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_messages","arguments":{}}}`+"\n")
		if got := exitStatus(t, cmd); got != 141 || says.String() != "" {
			t.Errorf("%s: exit status %d, %q; want 141 and nothing", name, got, says.String())
		}
		in.Close()
		o.await(`SELECT count(*) FROM message_trace WHERE event = 'read'`, "0")
	}
	if got := o.run("wait", "--recipient", "a", "--timeout", "0"); got["count"] != 1.0 {
		t.Errorf("the next who asks gets %v", got)
	}
}

// TestMCPDatabaseRemoved checks that if the database of a running server is removed, each of its tools reports that,
// nothing is created in its place, and everything continues when it is back.
func TestMCPDatabaseRemoved(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "what is removed is a file")
	for name, test := range map[string]struct {
		names []string // in the parent of the database's folder
		says  string
	}{
		"the file": {[]string{"there/mailroom.db"}, "is missing, but "},
		"the file with -wal": {[]string{"there/mailroom.db", "there/mailroom.db-wal", "there/mailroom.db-shm"},
			"was removed"},
		"the folder": {[]string{"there"}, "was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := t.TempDir()
			o := newOfficeOf(t, "mailroom", filepath.Join(above, "there"), "a", "b")
			_, _, s := o.startTools("a", "relay")
			call := func(tool string, arguments map[string]any) (text string, failed bool) {
				t.Helper()
				got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
				if err != nil {
					t.Fatal(err)
				}
				return got.Content[0].(*mcp.TextContent).Text, got.IsError
			}
			send := map[string]any{"target": "b", "message_type": "STATUS", "message": "hello"}
			if text, failed := call("send_message", send); failed {
				t.Fatal(text)
			}
			move := func(from, to string) {
				for _, name := range test.names {
					if err := os.Rename(filepath.Join(above, from+name), filepath.Join(above, to+name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := os.MkdirAll(filepath.Join(above, "away", filepath.Dir(test.names[0])), 0o700); err != nil {
				t.Fatal(err)
			}
			move("", "away/")
			for range 3 {
				for tool, arguments := range map[string]map[string]any{"send_message": send, "get_messages": {},
					"get_sent_messages": {}} {
					text, failed := call(tool, arguments)
					if !failed || !strings.Contains(text, `"unavailable"`) || !strings.Contains(text, test.says) {
						t.Errorf("%s answers %s", tool, text)
					}
				}
				for _, name := range test.names {
					if _, err := os.Lstat(filepath.Join(above, name)); err == nil {
						t.Fatalf("there is a new %s", name)
					}
				}
			}
			move("away/", "")
			if text, failed := call("send_message", send); failed {
				t.Errorf("with the database back: %s", text)
			}
			if got := o.rows(`SELECT count(*) FROM agent_message WHERE recipient = 'b'`); got[0] != "2" {
				t.Errorf("%s messages are there; want two", got)
			}
		})
	}
}
