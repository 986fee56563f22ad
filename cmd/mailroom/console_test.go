package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"mailroom/commands/surface/web"
)

// consoleOf starts `mailroom console --print`, and returns the address and the code that it prints.
func (o *office) consoleOf() (cmd *exec.Cmd, address, code string) {
	o.t.Helper()
	cmd = o.command("console", "--print")
	out, err := cmd.StdoutPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var printed struct{ URL string }
	if err != nil || json.Unmarshal(line, &printed) != nil {
		o.t.Fatalf("it prints %s: %v", line, err)
	}
	address, code, _ = strings.Cut(printed.URL, "/#code=")
	return cmd, address, code
}

// login exchanges a code for a token at an address.
func (o *office) login(address, code string) (status int, token string) {
	o.t.Helper()
	res, err := http.Post(address+web.SessionPath, "application/json", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		o.t.Fatal(err)
	}
	defer res.Body.Close()
	var session struct{ Token string }
	if err := json.NewDecoder(res.Body).Decode(&session); err != nil {
		o.t.Fatal(err)
	}
	return res.StatusCode, session.Token
}

// TestConsole checks that the console is served by the command if there is no daemon, and otherwise by the daemon. A
// session belongs to the database, whichever process accepted the browser. Ctrl-C ends the command with status 130,
// and the next console uses the same port.
func TestConsole(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	cmd, own, code := o.consoleOf()
	status, token := o.login(own, code)
	if status != 200 {
		t.Fatalf("the code of the command: %d", status)
	}
	if status, _ := o.login(own, code); status != 401 {
		t.Errorf("the same code again: %d", status)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("after Ctrl-C: %v", cmd.ProcessState)
	}
	again, address, _ := o.consoleOf()
	if address != own {
		t.Errorf("at %s, and the next time at %s", own, address)
	}
	again.Process.Kill()
	again.Wait()

	s := o.serve()
	cmd, address, code = o.consoleOf()
	if err := cmd.Wait(); err != nil || address != s.address {
		t.Errorf("the console is at %s; the daemon is at %s: %v", address, s.address, err)
	}
	if status, _ := o.login(s.address, code); status != 200 {
		t.Errorf("the code at the daemon: %d", status)
	}
	res, err := s.post(token, "send", `{"recipient":"b","message_type":"note"}`)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("a session of before, at the daemon: %s", res.Status)
	}
	o.await(`SELECT sender FROM agent_message`, "operator")
	if list := o.run("agent", "token", "operator", "--list")["tokens"].([]any); len(list) != 2 {
		t.Errorf("the sessions are %v", list)
	}
	o.run("agent", "token", "operator", "--revoke")
	if res, err = s.post(token, "status", `{}`); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("a session that was revoked: %s", res.Status)
	}
}
