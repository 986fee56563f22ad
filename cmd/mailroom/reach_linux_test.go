package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
)

// far acts as a machine of another user: nothing of the database is visible there.
type far struct {
	t      *testing.T
	folder string // in which the commands run
	env    []string
}

func newFar(t *testing.T) *far {
	t.Helper()
	home := t.TempDir()
	f := &far{t: t, folder: filepath.Join(home, "shop")}
	if err := os.Mkdir(f.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	f.env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=", "MAILROOM_DB=", "MAILROOM_AGENT=", "MAILROOM_TOKEN=")
	return f
}

func (f *far) command(args ...string) *exec.Cmd {
	cmd := exec.Command("mailroom", args...)
	cmd.Dir, cmd.Env = f.folder, f.env
	return cmd
}

// run runs a command line and returns its output, from both streams, and its exit status.
func (f *far) run(args ...string) (said string, status int) {
	f.t.Helper()
	cmd := f.command(args...)
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		f.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// does fails unless a command line ends with a status, and prints a text.
func (f *far) does(status int, text string, args ...string) {
	f.t.Helper()
	said, is := f.run(args...)
	if is != status || !strings.Contains(said, text) {
		f.t.Errorf("mailroom %s ends with %d; want %d, and %q: %s", strings.Join(args, " "), is, status, text, said)
	}
}

// invite returns the link with which a project joins as an agent.
func (o *office) invite(words ...string) string {
	o.t.Helper()
	return o.run(append([]string{"invite", "--host", "127.0.0.1"}, words...)...)["link"].(string)
}

// TestReach checks that a machine that has joined works as at home, only for its agent, and only with the machine
// that it has joined.
func TestReach(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "bob", "carol")
	s := o.serveAt("0.0.0.0:0")
	if !strings.HasPrefix(s.address, "https://") {
		t.Fatalf("beyond this machine it listens at %s", s.address)
	}
	f := newFar(t)
	link := o.invite("alice")
	place, _, _ := strings.Cut(link, "/#")

	// Wrong invitations.
	f.does(64, "invalid invitation", "join", place+"/#alice.code")
	f.does(77, "not valid", "join", strings.Replace(link, "#alice.", "#alice.A", 1))
	f.does(77, "not valid", "join", strings.Replace(link, "#alice.", "#carol.", 1))
	f.does(77, "does not match its pin", "join", link[:len(link)-1]+string("AB"[strings.Count(link[len(link)-1:], "A")]))
	f.does(64, "works only on this machine", "join", "http://10.0.0.1:9464/#alice.code")
	f.does(64, "requires an invitation", "join", place)
	f.does(75, "cannot connect to", "join", "https://127.0.0.1:1/#alice.code."+link[len(link)-43:])

	f.does(0, `"agent":"alice"`, "join", link)
	newFar(t).does(65, "was used at", "join", link) // by the second machine that uses it
	if err := os.Remove(filepath.Join(f.folder, ".mailroom", "place")); err != nil {
		t.Fatal(err)
	}
	f.does(0, `"agent":"alice"`, "join", link) // used again, which also restores what was lost
	want.Rows(t, o.rows(`SELECT name, caller, status FROM command_trace WHERE name IN ('invite', 'join') ORDER BY id`),
		"invite||OK", "join|alice|ERROR", "join|carol|ERROR", "join|alice|OK", "join|alice|ERROR")

	found, _ := o.command("doctor").Output() // it ends with 1, because it finds something
	if !strings.Contains(string(found), "An invitation for alice was used twice") || !strings.Contains(string(found), "to join as carol") {
		t.Errorf("doctor finds %s", found)
	}

	// As at home.
	f.does(0, `"success":true`, "send", "bob", "Are the tests green?")
	f.does(0, `"sender":"alice","recipient":"bob"`, "why", "last")
	f.does(0, "alice", "whoami")
	o.run("send", "--as", "bob", "alice", "They are.")
	f.does(0, "They are.", "read", "--text")
	f.does(0, "no unread messages", "inbox", "--text")
	f.does(0, "They are.", "show", "last", "--text")
	if err := os.WriteFile(filepath.Join(f.folder, "text"), []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.does(0, `"success":true`, "send", "bob", "--file", "text")
	want.Equal(t, "messages", len(o.run("wait", "--recipient", "bob")["messages"].([]any)), 2)

	// Only for alice, and nothing of that machine itself.
	f.does(77, "can act only as alice", "send", "--as", "carol", "bob", "x")
	f.does(77, "can act only as alice", "mcp", "--as", "carol")
	f.does(77, "cannot see the messages of other agents", "tail", "carol")
	f.does(77, "only administrators", "status")
	f.does(77, "machine that has the database", "backup", "/tmp/stolen.db")
	f.does(77, "machine that has the database", "invoke", "invite", `{"name":"mallory"}`)
	f.does(77, "machine that has the database", "init")
	f.does(64, "daemon must run on", "serve")
	f.does(77, "only administrators", "agent", "add", "mallory", "--deliver", "exec:/bin/true")

	// A folder copied from another user gives no access.
	clone := newFar(t)
	if err := os.CopyFS(clone.folder, os.DirFS(f.folder)); err != nil {
		t.Fatal(err)
	}
	clone.does(77, "is not joined to", "send", "bob", "x")
	cmd := clone.command("hook", "SessionStart", "--host", "claude", "--as", "alice")
	cmd.Stdin = strings.NewReader(`{"session_id":"one"}`)
	said, err := cmd.CombinedOutput()
	want.Equal(t, "a hook in a clone", string(said), "")
	want.Equal(t, "error", err, nil)

	// If nothing can be written, the environment contains the data.
	printed, _ := f.run("join", "--print", o.invite("dave"))
	dave := newFar(t)
	dave.env = append(dave.env, strings.Fields(printed)...)
	dave.does(0, `"success":true`, "send", "bob", "hello")
	dave.does(0, "dave", "whoami")

	// A second machine of the person.
	mine := newFar(t)
	mine.does(0, "operator", "join", o.invite("--operator"))
	mine.does(0, "unread", "status")
	mine.does(0, `"success":true`, "send", "--as", "carol", "bob", "x")
	mine.does(77, "machine that has the database", "backup", "/tmp/stolen.db")

	// After a revocation, and after leaving.
	tail := dave.command("tail")
	out, err := tail.StdoutPipe()
	if err == nil {
		err = tail.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tail.Process.Kill() })
	want.Equal(t, "revoked", o.run("agent", "token", "dave", "--revoke")["revoked"], any(1.0))
	dave.does(77, "not valid", "send", "bob", "x")
	io.Copy(io.Discard, out)
	want.Equal(t, "end of a tail whose token was revoked", tail.Wait() != nil, true)
	f.does(0, `"left":true`, "leave")
	want.Rows(t, o.rows(`SELECT count(*) FROM tokens WHERE agent = 'alice' AND revoked_at = ''`), "0")
	if _, err := os.Stat(filepath.Join(f.folder, ".mailroom")); err == nil {
		t.Error("leave leaves something")
	}

	// Another machine at the same address.
	s.stop(t)
	if err := os.Remove(filepath.Join(os.Getenv("XDG_STATE_HOME"), "mailroom", "daemon.pem")); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.address, "https://"))
	o.serveAt("0.0.0.0:" + port)
	mine.does(77, "does not match its pin", "status")
}

// TestReachBySocket checks that processes of the same user need no token at the daemon's socket, and that those of
// another user do.
func TestReachBySocket(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "alice", "bob")
	folder, err := os.MkdirTemp("", "s") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "x.sock")
	s := o.serve("--socket", socket)
	info, err := os.Lstat(socket)
	want.Equal(t, "error", err, nil)
	want.Equal(t, "mode", info.Mode().Perm(), os.FileMode(0o600))
	f := newFar(t)
	f.does(0, `"place":"unix:`, "join", "unix:"+socket)
	f.does(0, `"success":true`, "send", "--as", "alice", "bob", "x")
	f.does(0, `"count":1`, "wait", "--recipient", "bob")
	f.does(77, "machine that has the database", "backup", "/tmp/stolen.db")
	f.does(77, "remote callers cannot", "agent", "add", "mallory", "--deliver", "exec:/bin/true")
	f.does(0, `"left":true`, "leave")
	if os.Getuid() == 0 {
		o.strangers(socket)
	}
	s.stop(t)
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the daemon leaves its socket")
	}
	f.does(75, "cannot connect to", "send", "--db", "unix:"+socket, "bob", "x")
}

// cutter is a proxy that cuts, delays and repeats connections.
type cutter struct {
	to   string
	cuts atomic.Int64
	on   atomic.Bool
	long atomic.Bool // connections last longer, and each is cut
}

// startCutter listens at an address that it returns.
func startCutter(t *testing.T, to string) (c *cutter, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c = &cutter{to: to}
	c.on.Store(true)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.pass(conn)
		}
	}()
	return c, l.Addr().String()
}

// pass passes a connection on, and cuts it after some bytes in one direction.
func (c *cutter) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer to.Close()
	left := map[bool]int{true: 1 << 60, false: 1 << 60}
	cuts := c.on.Load() && rand.IntN(3) > 0
	if c.long.Load() && c.on.Load() {
		cuts, left[rand.IntN(2) == 0] = true, rand.IntN(30_000)
	} else if cuts {
		left[rand.IntN(2) == 0] = rand.IntN(4000)
	}
	var double io.Writer = io.Discard
	if c.on.Load() && rand.IntN(8) == 0 { // repeats the data as an eavesdropper could
		if again, err := net.Dial("tcp", c.to); err == nil {
			defer again.Close()
			double = again
		}
	}
	var both sync.WaitGroup
	over := make(chan bool, 2)
	pipe := func(dst, src net.Conn, up bool) {
		defer func() { over <- true }()
		n, _ := io.CopyN(dst, src, int64(left[up]))
		if n == int64(left[up]) && cuts {
			c.cuts.Add(1)
		}
	}
	both.Go(func() { pipe(to, &teed{from, double}, true) })
	both.Go(func() { pipe(from, to, false) })
	<-over
	from.Close()
	to.Close()
	both.Wait()
}

// teed is a connection whose bytes are copied to another writer.
type teed struct {
	net.Conn
	also io.Writer
}

func (c *teed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.also.Write(b[:n])
	return n, err
}

// TestCuts checks that while connections are cut at any point, three projects can send to each other and read.
// Nothing is lost, sent twice or shown twice.
func TestCuts(t *testing.T) {
	t.Parallel()
	names := []string{"alice", "bob", "carol"}
	o := newOffice(t, names...)
	s := o.serveAt("0.0.0.0:0", "--rate", "10000")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.address, "https://"))
	c, address := startCutter(t, "127.0.0.1:"+port)
	var mu sync.Mutex
	sent, got := map[string]int{}, map[string]int{}
	read := func(f *far) (some bool) {
		out, err := f.command("wait", "--timeout", "0", "--json").Output()
		if err != nil {
			t.Errorf("a read: %v %s", err, out)
		}
		var answer struct {
			Messages []struct{ Payload json.RawMessage }
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, m := range answer.Messages {
			got[string(m.Payload)]++
		}
		return len(answer.Messages) > 0
	}
	var fars []*far
	cuts := int64(helper.Times(300))
	var all sync.WaitGroup
	for i, name := range names {
		f := newFar(t)
		printed, _ := f.run("join", "--print", o.invite(name))
		f.env = append(f.env, strings.Fields(strings.Replace(printed, "127.0.0.1:"+port, address, 1))...)
		fars = append(fars, f)
		all.Go(func() {
			for n := 0; c.cuts.Load() < cuts; n++ {
				text := fmt.Sprintf(`"%s %d"`, name, n)
				mu.Lock()
				sent[text]++
				mu.Unlock()
				to := names[(i+1+n%2)%3]
				if out, err := f.command("send", "--recipient", to, "--message-type", "note", "--payload", text).CombinedOutput(); err != nil {
					t.Errorf("a send: %v %s", err, out)
				}
				if n%2 == 0 {
					read(f)
				}
			}
		})
	}
	all.Wait()
	c.on.Store(false)
	o.await(`SELECT count(*) FROM agent_message WHERE status <> 'delivered'`, "0")
	for _, f := range fars { // messages that were cut off before they were shown come back
		o.until("all is read", func() bool {
			read(f)
			return o.allRead(names[slices.Index(fars, f)])
		})
	}
	mu.Lock()
	defer mu.Unlock()
	lost, twice := 0, 0
	for text := range sent {
		switch n := got[text]; {
		case n == 0:
			lost++
		case n > 1:
			twice++
		}
	}
	want.Equal(t, "lost", lost, 0)
	want.Equal(t, "shown twice", twice, 0)
	want.Rows(t, o.rows(`SELECT count(*), count(DISTINCT payload) FROM agent_message`), fmt.Sprintf("%d|%d", len(sent), len(sent)))
	t.Logf("%d cuts, %d messages", c.cuts.Load(), len(sent))
}

// tools starts the tools of an agent, and connects to them.
func (f *far) tools(agent string) *mcp.ClientSession {
	f.t.Helper()
	cmd := f.command(mcpWords(agent, "relay", false)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return dialMCP(f.t, &mcp.IOTransport{Reader: out, Writer: in})
}

// TestToolsThroughCuts checks that tools continue through cuts of the connection, and send and show each message
// once.
func TestToolsThroughCuts(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "alice", "bob")
	s := o.serveAt("0.0.0.0:0", "--rate", "10000")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.address, "https://"))
	c, address := startCutter(t, "127.0.0.1:"+port)
	c.long.Store(true)
	f := newFar(t)
	printed, _ := f.run("join", "--print", o.invite("alice"))
	f.env = append(f.env, strings.Fields(strings.Replace(printed, "127.0.0.1:"+port, address, 1))...)
	alice := f.tools("alice")
	call := func(name string, args map[string]any) string {
		t.Helper()
		r, err := alice.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		text := r.Content[0].(*mcp.TextContent).Text
		if r.IsError {
			t.Fatalf("%s: %s", name, text)
		}
		return text
	}
	cuts := int64(helper.Times(60))
	sent, got := 0, ""
	for n := 0; c.cuts.Load() < cuts; n++ {
		call("send_message", map[string]any{"target": "bob", "message_type": "STATUS", "message": fmt.Sprint("to bob ", n)})
		o.run("send", "--as", "bob", "alice", fmt.Sprintf("to alice %d.", n))
		got += call("get_messages", map[string]any{})
		sent++
	}
	c.on.Store(false)
	o.until("all is read", func() bool { // messages that were cut off before they were shown come back
		got += call("get_messages", map[string]any{})
		return o.allRead("alice")
	})
	for n := range sent {
		want.Equal(t, fmt.Sprint("message ", n, " is shown"), strings.Count(got, fmt.Sprintf("to alice %d.", n)), 1)
	}
	want.Rows(t, o.rows(`SELECT count(*), count(DISTINCT payload) FROM agent_message WHERE recipient = 'bob'`), fmt.Sprintf("%d|%d", sent, sent))
	t.Logf("%d cuts, %d messages each way", c.cuts.Load(), sent)
}

// TestToolsBeforeTheConnection checks that the tools of a project whose daemon cannot be reached are listed, report
// that when they are called, and work once it can be reached.
func TestToolsBeforeTheConnection(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "alice", "bob")
	folder, err := os.MkdirTemp("", "s") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "x.sock")
	f := newFar(t)
	f.env = append(f.env, "MAILROOM_DB=unix:"+socket)
	alice := f.tools("alice")
	tools, err := alice.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) == 0 {
		t.Fatal(tools, err)
	}
	args := map[string]any{"target": "bob", "message_type": "STATUS", "message": "hello"}
	r, err := alice.CallTool(t.Context(), &mcp.CallToolParams{Name: "send_message", Arguments: args})
	if err != nil || !r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "cannot connect to") {
		t.Fatal(r, err)
	}
	o.serve("--socket", socket)
	r, err = alice.CallTool(t.Context(), &mcp.CallToolParams{Name: "send_message", Arguments: args})
	if err != nil || r.IsError {
		t.Fatal(r.Content[0].(*mcp.TextContent).Text, err)
	}
	want.Rows(t, o.rows(`SELECT count(*) FROM agent_message`), "1")
}

// TestReachThroughARestart checks that waiting commands and tools in a project continue when the daemon is stopped
// and started again.
func TestReachThroughARestart(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "alice", "bob")
	folder, err := os.MkdirTemp("", "s") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "x.sock") // another process could take a port meanwhile
	s := o.serve("--socket", socket)
	f := newFar(t)
	f.env = append(f.env, "MAILROOM_DB=unix:"+socket)
	tools := f.tools("alice")
	waiting := f.command("wait", "--as", "alice", "--wait-for", "bob", "--timeout", "1m")
	var out bytes.Buffer
	waiting.Stdout, waiting.Stderr = &out, &out
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	o.await(`SELECT count(*) FROM waits`, "1")
	s.stop(t)
	s = o.serve("--socket", socket)
	o.run("send", "--sender", "bob", "--recipient", "alice", "--message-type", "note", "--payload", `"welcome back"`)
	if err := waiting.Wait(); err != nil || strings.Count(out.String(), "welcome back") != 1 {
		t.Errorf("the wait ends with %v: %s", err, &out)
	}
	args := map[string]any{"target": "bob", "message_type": "STATUS", "message": "hello"}
	if r, err := tools.CallTool(t.Context(), &mcp.CallToolParams{Name: "send_message", Arguments: args}); err != nil || r.IsError {
		t.Error(r, err)
	}
	s.stop(t)
}

// TestReachFromAContainer checks that only the client, in a separate root folder and user namespace, without files of
// the database and without a writable home, can reach a database by its socket without a network, and over TLS.
func TestReachFromAContainer(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "bob")
	root, err := os.MkdirTemp("", "c") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	for _, name := range []string{"bin", "run"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	buildClient(t, filepath.Join(root, "bin", "mailroom"))
	o.serveAt("0.0.0.0:0", "--socket", filepath.Join(root, "run", "m.sock"))
	inside := func(namespaces uintptr, env []string, args ...string) string {
		t.Helper()
		cmd := exec.Command("/bin/mailroom", args...)
		cmd.Dir, cmd.Env = "/", append(env, "HOME=/bin/mailroom", "MAILROOM_OUTPUT=json")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Cloneflags: syscall.CLONE_NEWUSER | namespaces,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	talk := func(namespaces uintptr, env ...string) {
		t.Helper()
		inside(namespaces, env, "send", "--sender", "alice", "bob", "hello")
		o.run("send", "--sender", "bob", "--recipient", "alice", "--message-type", "note", "--payload", `"welcome"`)
		if got := inside(namespaces, env, "read", "alice"); strings.Count(got, "welcome") != 1 {
			t.Errorf("alice reads %s", got)
		}
	}
	o.run("agent", "add", "alice")
	talk(syscall.CLONE_NEWNET, "MAILROOM_DB=unix:/run/m.sock")
	talk(0, strings.Fields(inside(0, nil, "join", "--print", o.invite("alice")))...)
	kept, err := filepath.Glob(root + "/*/*")
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "files there", strings.Join(kept, " "), root+"/bin/mailroom "+root+"/run/m.sock")
	want.Rows(t, o.rows(`SELECT recipient, count(*) FROM agent_message GROUP BY recipient ORDER BY recipient`), "alice|2", "bob|2")
}

// strangers connects to the daemon's socket as another user, to whom the file's permissions give access.
func (o *office) strangers(socket string) {
	o.t.Helper()
	for path, mode := range map[string]os.FileMode{socket: 0o666, filepath.Dir(socket): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			o.t.Fatal(err)
		}
	}
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		const nobody = 65534
		if _, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); failed != 0 {
			done <- dialed{nil, failed}
			return
		}
		conn, err := net.Dial("unix", socket)
		done <- dialed{conn, err}
	}()
	d := <-done
	if d.err != nil {
		o.t.Fatal(d.err)
	}
	defer d.conn.Close()
	r, err := http.NewRequest(http.MethodPost, "http://localhost/v1/commands/status", strings.NewReader("{}"))
	if err != nil {
		o.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if err := r.Write(d.conn); err != nil {
		o.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(d.conn), r)
	if err != nil {
		o.t.Fatal(err)
	}
	want.Equal(o.t, "status for another user", answer.StatusCode, http.StatusUnauthorized)
}
