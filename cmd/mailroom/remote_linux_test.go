package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store/postgres"
)

// studio sets up a host named studio that the returned environment reaches over ssh. It uses Debian's ssh client and
// server, which communicate over a pipe or between two network namespaces. sockets is the folder of the client's
// control sockets.
func studio(t *testing.T, network *namespace) (env []string, sockets string) {
	t.Helper()
	for _, program := range []string{"ssh", "/usr/sbin/sshd", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	write := func(name string, mode os.FileMode, format string, args ...any) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), fmt.Appendf(nil, format, args...), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"host", "user"} {
		if said, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	os.MkdirAll("/run/sshd", 0o755) // needed if sshd runs as root
	write("login", 0o700, "#!/bin/sh\necho Welcome.\nexport HOME=%s XDG_STATE_HOME=%s PATH=%s\ncd\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
		folder, os.Getenv("XDG_STATE_HOME"), os.Getenv("PATH"))
	// SHLVL keeps bash, which ssh starts, from reading the user's startup files, which can take long.
	write("sshd_config", 0o600, "HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv SHLVL=5\nForceCommand %s\n",
		at("host"), at("user.pub"), at("login"))
	where := "ProxyCommand setsid /usr/sbin/sshd -i -f " + at("sshd_config")
	if network != nil {
		where = "HostName " + network.address
		network.start(exec.Command("/usr/sbin/sshd", "-D", "-f", at("sshd_config"), "-o", "PidFile=none"))
	}
	write("config", 0o600, "Host studio\n  %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n  StrictHostKeyChecking accept-new\n  ConnectionAttempts 20\n  LogLevel ERROR\n",
		where, at("user"), at("known"))
	write("bin/ssh", 0o700, "#!/bin/sh\nexec /usr/bin/ssh -F %s \"$@\"\n", at("config"))
	sockets, err := os.MkdirTemp("", "ssh") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	return []string{"PATH=" + at("bin") + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + sockets}, sockets
}

// overSSH returns an office whose commands reach its database over ssh.
func overSSH(t *testing.T, agents ...string) *office {
	t.Helper()
	o := newOffice(t, agents...)
	if postgres.IsAddress(o.db) {
		t.Skip("a place is a file there")
	}
	env, sockets := studio(t, nil)
	t.Cleanup(func() { want.Equal(t, "connections that are kept", endHolders(t, sockets+"/mailroom"), 1) })
	o.env = append(append(o.env, env...), "MAILROOM_DB=ssh://studio"+o.db, "TZ=Asia/Tokyo")
	return o
}

// endHolders ends the processes that keep a connection open and whose sockets are in folder, and returns how many
// there were.
func endHolders(t *testing.T, folder string) (n int) {
	t.Helper()
	kept, _ := filepath.Glob(folder + "/*")
	for _, socket := range kept {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			continue
		}
		n++
		raw, err := conn.(*net.UnixConn).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				var of *unix.Ucred
				if of, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
					err = unix.Kill(int(of.Pid), unix.SIGTERM)
				}
			})
		}
		if err != nil {
			t.Error(err)
		}
		io.Copy(io.Discard, conn) // until the process ends
		conn.Close()
	}
	return n
}

// TestOverSSH checks that commands whose database is on another machine behave as they do with a local one: they
// prompt, wait and can be interrupted, and they do not mark messages as read that nobody received.
func TestOverSSH(t *testing.T) {
	t.Parallel()
	o := overSSH(t, "alice", "bob", "carol")
	sent := o.run("send", "--as", "alice", "bob", "Are the tests green?")
	want.Equal(t, "sent", sent["success"], true)
	got := o.run("wait", "--recipient", "bob")["messages"].([]any)
	want.Equal(t, "messages", len(got), 1)
	want.Rows(t, o.rows(`SELECT count(*) FROM agent_inbox WHERE read_at <> ''`), "1")

	o.hooksOverSSH()
	o.env = append(o.env, "MAILROOM_OUTPUT=text")
	o.asksOverSSH()
	o.stopsOverSSH()
	o.diesOverSSH()
}

// hooksOverSSH checks that a local host is shown a message once, and that the message is marked as read when the
// host's transcript, which is a local file, records that the model has seen it.
func (o *office) hooksOverSSH() {
	o.t.Helper()
	transcript := filepath.Join(o.folder, "transcript.jsonl")
	hook := func(event string) string {
		o.t.Helper()
		cmd := o.command("hook", event, "--host", "claude", "--as", "bob")
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"one","transcript_path":%q,"tool_output":"much"}`, transcript))
		said, err := cmd.Output()
		if err != nil {
			o.t.Fatal(err)
		}
		return string(said)
	}
	o.until("the session is known", func() bool {
		hook("SessionStart")
		return len(o.rows(`SELECT session FROM host_sessions`)) == 1
	})
	id := o.run("send", "--as", "alice", "bob", "Look at the build.")["message_id"].(string)
	shown := ""
	// On a busy machine the hook may get no answer within a second.
	o.until("the hook shows the message", func() bool {
		shown = hook("PostToolUse")
		return shown != ""
	})
	if !strings.Contains(shown, "Look at the build.") {
		o.t.Errorf("the hook says %q", shown)
	}
	var answer struct {
		Output struct {
			Text string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(shown), &answer); err != nil {
		o.t.Fatal(err)
	}
	want.Equal(o.t, "once more", hook("PostToolUse"), "")
	if err := os.WriteFile(transcript, []byte(`{"type":"attachment","content":`+string(orchestrator.JSONString(answer.Output.Text))+`}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I see."}]}}
`), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.until("it is read", func() bool {
		want.Equal(o.t, "when it was seen", hook("PostToolUse"), "")
		return o.rows(`SELECT read_at <> '' FROM agent_message WHERE message_id = '` + id + `'`)[0] == "1"
	})
}

// asksOverSSH checks that a person is prompted, and that text typed before the prompt is not taken as the answer.
func (o *office) asksOverSSH() {
	o.t.Helper()
	for _, typed := range []struct {
		answer string
		ends   int
		left   string
	}{{"n\n", 64, "1"}, {"y\n", 0, "0"}} {
		printed, status := o.atATerminal(100, "mailroom agent remove carol", "[y/N] ", typed.answer)
		if status != typed.ends || strings.Count(printed, "[y/N]") != 1 {
			o.t.Errorf("the answer %q ends with %d; want %d: %q", typed.answer, status, typed.ends, printed)
		}
		want.Rows(o.t, o.rows(`SELECT count(*) FROM agents WHERE name = 'carol'`), typed.left)
	}
}

// stopsOverSSH checks that Ctrl-C ends a running command on both machines.
func (o *office) stopsOverSSH() {
	o.t.Helper()
	printed, status := o.atATerminal(100, "mailroom tail --as alice", "delivered", "\x03")
	want.Equal(o.t, "status of tail", status, 130)
	if strings.Contains(printed, "lost") {
		o.t.Errorf("an interruption is taken for a lost connection: %q", printed)
	}
}

// diesOverSSH checks that messages that a reader received but could not write are unread again after it is killed.
func (o *office) diesOverSSH() {
	o.t.Helper()
	path := filepath.Join(o.folder, "long")
	if err := os.WriteFile(path, []byte(strings.Repeat("long ", 100_000)), 0o600); err != nil {
		o.t.Fatal(err)
	}
	cmd := o.command("send", "--as", "alice", "bob", "--file", path)
	if said, err := cmd.CombinedOutput(); err != nil {
		o.t.Fatalf("%v: %s", err, said)
	}
	reader := o.command("wait", "--recipient", "bob", "--json")
	out, err := reader.StdoutPipe() // never read
	if err == nil {
		err = reader.Start()
	}
	if err != nil {
		o.t.Fatal(err)
	}
	defer out.Close()
	o.await(`SELECT count(*) FROM reading_lease`, "1")
	reader.Process.Kill()
	reader.Wait()
	o.await(`SELECT count(*) FROM agent_inbox WHERE recipient = 'bob' AND read_at = ''`, "1")
	o.env = append(o.env, "MAILROOM_OUTPUT=json")
	want.Equal(o.t, "messages", len(o.run("wait", "--recipient", "bob")["messages"].([]any)), 1)
}
