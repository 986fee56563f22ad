package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

// nextVersion builds the program as its next version would be: from these sources and one more migration. The
// environment variable oldestEnv sets the oldest version that may still use the migrated tables.
var nextVersion = sync.OnceValues(func() (program string, err error) {
	tables, err := filepath.Abs("../../orchestrator/store/sqlite/tables")
	if err != nil {
		return "", err
	}
	migrations, err := os.ReadDir(filepath.Join(tables, "migrations"))
	if err != nil {
		return "", err
	}
	folder := filepath.Join(ownFolder, "next")
	migration, next, overlay := filepath.Join(folder, "next.sql"), filepath.Join(folder, "next.go"),
		filepath.Join(folder, "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(tables, "migrations", fmt.Sprintf("%d.sql", len(migrations)+10)): migration,
		filepath.Join(tables, "next.go"):                                               next,
	}})
	if err := errors.Join(err,
		os.Mkdir(folder, 0o700),
		os.WriteFile(migration, []byte(`ALTER TABLE agents ADD COLUMN next TEXT NOT NULL DEFAULT '';`), 0o600),
		os.WriteFile(next, []byte(`package tables
			import ("os"; "strconv")
			func init() { oldestVersion, _ = strconv.Atoi(os.Getenv("`+oldestEnv+`")) }`), 0o600),
		os.WriteFile(overlay, replaced, 0o600)); err != nil {
		return "", err
	}
	program = filepath.Join(folder, "mailroom")
	out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
})

const oldestEnv = "MAILROOM_TEST_OLDEST"

// living holds programs of this version that have a database open, and the next version of the program for that
// database.
type living struct {
	*office
	next   *office // the same database, with the next version
	tools  *mcp.ClientSession
	daemon *serving
	lines  *sender
	watch  *exec.Cmd
	folder string // folder that watch observes
}

// newLiving starts the programs and uses each once. oldest is the oldest version that may go on, relative to this
// one.
func newLiving(t *testing.T, oldest int) *living {
	t.Helper()
	enginetest.OfAFile(t, "the tables of a server have had one version only")
	program, err := nextVersion()
	if err != nil {
		t.Fatal(err)
	}
	l := &living{office: newOffice(t, "a", "b"), folder: filepath.Join(t.TempDir(), "root")}
	l.run("agent", "add", "f", "--deliver", "jsonl:"+filepath.Join(l.office.folder, "f.jsonl"))
	present, err := strconv.Atoi(l.rows("PRAGMA user_version")[0])
	if err != nil {
		t.Fatal(err)
	}
	l.next = &office{t: t, db: l.db, folder: l.office.folder, program: program,
		env: []string{oldestEnv + "=" + strconv.Itoa(present+oldest)}}
	l.tools = dialMCP(t, overStdio(l.office)("a", "relay", false))
	t.Cleanup(func() { l.tools.Close() })
	l.daemon = l.serve()
	l.watch = l.command("ralph", "watch", "--root", l.folder)
	if err := l.watch.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.watch.Process.Kill() })
	l.until("the watch is there", func() bool { return l.rows("SELECT count(*) FROM daemons")[0] == "2" })
	if l.lines, err = l.startSender(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.lines.cmd.Process.Kill() })
	if answer := l.tell("b", "one"); answer["success"] != true {
		t.Fatalf("before: %v", answer)
	}
	if err := l.lines.say("a", "b", `"two"`); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.lines.heard(); err != nil || !ok {
		t.Fatalf("before: %v %v", ok, err)
	}
	return l
}

// tell sends a message through the MCP server of this version and returns its answer.
func (l *living) tell(target, text string) map[string]any {
	l.t.Helper()
	result, err := l.tools.CallTool(l.t.Context(), &mcp.CallToolParams{Name: "send_message", Arguments: map[string]any{
		"target": target, "message": text, "message_type": "STATUS"}})
	if err != nil {
		l.t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &answer); err != nil {
		l.t.Fatalf("%v: %v", result.Content[0], err)
	}
	return answer
}

// TestOlderProgramsGoOn checks that programs of this version that have the database open go on after a newer version
// has changed its tables, if that change allows it, and that each version reads what the other writes.
func TestOlderProgramsGoOn(t *testing.T) {
	t.Parallel()
	l := newLiving(t, 0)
	l.next.run("send", "--sender", "a", "--recipient", "f", "--message-type", "note", "--payload", "3")
	l.await("SELECT status FROM agent_message WHERE recipient = 'f'", "delivered") // by the daemon
	if answer := l.tell("b", "four"); answer["success"] != true {
		t.Errorf("the MCP server answers %v", answer)
	}
	if err := l.lines.say("a", "b", `"five"`); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.lines.heard(); err != nil || !ok {
		t.Errorf("the sender: %v %v", ok, err)
	}
	if got := l.run("wait", "--recipient", "b", "--timeout", "0")["messages"].([]any); len(got) != 4 {
		t.Errorf("a program of this version that is started now reads %d messages; want 4", len(got))
	}
	l.checkHistory()
}

// TestOlderProgramsStepBack checks that programs of this version write nothing more if the change does not allow it.
// An MCP server answers each call with what to do, a daemon and a watch report it and exit, and no message is lost.
func TestOlderProgramsStepBack(t *testing.T) {
	t.Parallel()
	l := newLiving(t, +1)
	l.next.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload", "3")
	sent := l.rows("SELECT count(*) FROM agent_message")[0]
	for range 2 {
		answer := l.tell("b", "four")
		if text := fmt.Sprint(answer["hint"]); answer["success"] != false || answer["error"] != "unavailable" ||
			!strings.Contains(text, "Restart this program") {
			t.Errorf("the MCP server answers %v", answer)
		}
	}
	read, err := l.tools.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_messages"})
	if err != nil || !read.IsError {
		t.Errorf("the MCP server lets read: %v %v", read, err)
	}
	if err := l.lines.say("a", "b", `"five"`); err != nil {
		t.Fatal(err)
	}
	if id, ok, err := l.lines.heard(); ok || err == nil || !strings.Contains(err.Error(), "unavailable") {
		t.Errorf("the sender: %q %v %v", id, ok, err)
	}
	late := time.AfterFunc(time.Minute, func() {
		l.daemon.cmd.Process.Kill()
		l.watch.Process.Kill()
	})
	defer late.Stop()
	l.daemon.until(t, "the daemon is stopping")
	for name, cmd := range map[string]*exec.Cmd{"daemon": l.daemon.cmd, "watch": l.watch} {
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 75 {
			t.Errorf("the %s ends with %v; want exit status 75", name, err)
		}
	}
	if now := l.rows("SELECT count(*) FROM agent_message")[0]; now != sent {
		t.Errorf("%s messages are there; want %s", now, sent)
	}
	if got := l.next.run("wait", "--recipient", "b", "--timeout", "0")["messages"].([]any); len(got) != 3 {
		t.Errorf("the next version reads %d messages; want 3", len(got))
	}
	var out, errs strings.Builder
	status := l.command("status")
	status.Stdout, status.Stderr = &out, &errs
	if err := status.Run(); err == nil || !strings.Contains(out.String(), "a newer Mailroom has changed the tables") {
		t.Errorf("a program of this version that is started now: %v\n%s%s", err, out.String(), errs.String())
	}
	l.next.checkHistory()
}
