package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// post runs a command on the daemon with a token.
func (s *serving) post(token, command, params string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, s.address+"/v1/commands/"+command, strings.NewReader(params))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// TestServeHangsUp checks that a daemon that is stopped exits with 0 although clients wait and listen, that those
// clients are notified, and that they lose no message.
func TestServeHangsUp(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	token := o.run("agent", "token", "b")["token"].(string)
	s := o.serve()
	waited := make(chan string, 1)
	go func() {
		res, err := s.post(token, "wait", `{"timeout":600,"wait_for":"a"}`)
		if err != nil {
			waited <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		waited <- fmt.Sprint(res.StatusCode, string(body))
	}()
	req, err := http.NewRequest(http.MethodGet, s.address+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	if !lines.Scan() {
		t.Fatal("the stream did not begin")
	}
	o.await(`SELECT count(*) FROM waits`, "1")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			t.Errorf("the stream says %s", lines.Text())
		}
	}
	if got := <-waited; !strings.HasPrefix(got, "503") || !strings.Contains(got, `"error":"unavailable"`) {
		t.Errorf("who waited got %s", got)
	}
	if got := exitStatus(t, s.cmd); got != 0 {
		t.Errorf("exit status %d", got)
	}
	o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note")
	if got := o.run("wait", "--recipient", "b")["count"]; got != 1.0 {
		t.Errorf("afterwards %v messages are there; want 1", got)
	}
}

// TestServeTellsNoToken checks that a token issued by another process works at once, that it stops working when
// another process revokes it, and that it appears in no file and no log line.
func TestServeTellsNoToken(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	s := o.serve("--host", "mail.example", "--rate", "1000", "--log-level", "debug")
	token := o.run("agent", "token", "a")["token"].(string)
	ask := func() int {
		t.Helper()
		res, err := s.post(token, "send", `{"recipient":"b","message_type":"note"}`)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	if got := ask(); got != 200 {
		t.Errorf("with the token: %d", got)
	}
	o.run("agent", "token", "a", "--revoke")
	if got := ask(); got != 401 {
		t.Errorf("on the same connection once it is revoked: %d", got)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for s.log.Scan() {
		all.WriteString(s.log.Text())
	}
	exitStatus(t, s.cmd)
	for _, name := range []string{"", "-wal", "-shm"} {
		content, err := os.ReadFile(o.db + name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		all.Write(content)
	}
	if strings.Contains(all.String(), token[9:]) || !strings.Contains(all.String(), "serving") {
		t.Error("the token is in the log or in a file, or nothing was searched")
	}
}
