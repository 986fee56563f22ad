package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store/postgres"
)

// overSSH returns an office whose processes reach its database over ssh: by Debian's client and server, which speak over a
// pipe in place of a network.
func overSSH(t *testing.T, agents ...string) *office {
	t.Helper()
	for _, program := range []string{"ssh", "/usr/sbin/sshd", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	o := newOffice(t, agents...)
	if postgres.IsAddress(o.db) {
		t.Skip("a place is a file there")
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
	os.MkdirAll("/run/sshd", 0o755) // where sshd runs as root
	write("login", 0o700, "#!/bin/sh\necho Welcome.\nexport HOME=%s XDG_STATE_HOME=%s PATH=%s\ncd\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
		folder, os.Getenv("XDG_STATE_HOME"), os.Getenv("PATH"))
	write("sshd_config", 0o600, "HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nForceCommand %s\n",
		at("host"), at("user.pub"), at("login"))
	write("config", 0o600, "Host studio\n  ProxyCommand setsid /usr/sbin/sshd -i -f %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n",
		at("sshd_config"), at("user"), at("known"))
	write("bin/ssh", 0o700, "#!/bin/sh\nexec /usr/bin/ssh -F %s \"$@\"\n", at("config"))
	sockets, err := os.MkdirTemp("", "ssh") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if said, err := exec.Command("/usr/bin/ssh", "-F", at("config"), "-o", "ControlPath="+sockets+"/mailroom/%C", "-O", "exit", "studio").CombinedOutput(); err != nil {
			t.Errorf("no connection is kept: %s", said)
		}
		os.RemoveAll(sockets)
	})
	o.env = append(o.env, "MAILROOM_DB=ssh://studio"+o.db, "PATH="+at("bin")+":"+os.Getenv("PATH"), "TZ=Asia/Tokyo", "XDG_RUNTIME_DIR="+sockets)
	return o
}

// TestOverSSH: commands on the machine of a user do on another what they do at home: they ask, wait, are interrupted, and
// read nothing that nobody got.
func TestOverSSH(t *testing.T) {
	t.Parallel()
	o := overSSH(t, "alice", "bob", "carol")
	sent := o.run("send", "--as", "alice", "bob", "Are the tests green?")
	want.Equal(t, "sent", sent["success"], true)
	got := o.run("wait", "--recipient", "bob")["messages"].([]any)
	want.Equal(t, "messages", len(got), 1)
	want.Rows(t, o.rows(`SELECT count(*) FROM agent_inbox WHERE read_at <> ''`), "1")

	o.env = append(o.env, "MAILROOM_OUTPUT=text")
	o.asksOverSSH()
	o.stopsOverSSH()
	o.diesOverSSH()
}

// asksOverSSH: a person is asked, and what was typed before is no answer.
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

// stopsOverSSH: Ctrl-C ends what goes on, on both sides.
func (o *office) stopsOverSSH() {
	o.t.Helper()
	printed, status := o.atATerminal(100, "mailroom tail --as alice", "delivered", "\x03")
	want.Equal(o.t, "status of tail", status, 130)
	if strings.Contains(printed, "lost") {
		o.t.Errorf("an interruption is taken for a lost connection: %q", printed)
	}
}

// diesOverSSH: what a reader got and could not write is unread again when it is killed.
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
	out, err := reader.StdoutPipe() // which nobody reads
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
