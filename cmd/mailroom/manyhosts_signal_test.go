package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The host on which a phone was approved has the keys. It alone sends questions and alerts to the user, from whatever
// host a message comes, and returns the answers. The others name that host.
func TestSignalOnManyHosts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "alpha", "beta")
	alpha, beta := f.hosts["alpha"], f.hosts["beta"]
	alpha.phones = t.TempDir()
	beta.run("agent", "add", "ann")
	alpha.run("signal", "device", "approve", alpha.paired("pixel")["fingerprint"])

	for _, command := range []string{"signal device list", "signal get_response q-0123456789",
		"signal ask_question --question May_I? --as ann", "signal pair", "serve --phone 127.0.0.1:0"} {
		if _, answer := beta.answerOf(strings.Fields(command)...); !strings.Contains(fmt.Sprint(answer),
			"the phone service (signal) runs on the host alpha") {
			t.Errorf("%s on another host: %v", command, answer)
		}
	}

	id := fmt.Sprint(beta.run("send", "--sender", "ann", "--recipient", "user", "--message-type", "question",
		"--payload", `"May I?"`)["message_id"])
	beta.run("deliver_all")
	if why := fmt.Sprint(beta.run("why", id)); !strings.Contains(why, "is on the host alpha, but no daemon runs on that host") {
		t.Errorf("why: %s", why)
	}
	alpha.run("deliver_all")
	if got := f.count(`SELECT status FROM agent_message WHERE message_id = '` + id + `'`); got != "delivered" {
		t.Fatalf("the message to the user is %s", got)
	}
	alpha.phone("pixel", "answer", f.count(`SELECT question_id FROM signal_questions`), "Yes")
	const back = `SELECT count(*) FROM agent_message WHERE recipient = 'ann' AND sender = 'user'
		AND message_type = 'answer'`
	beta.run("deliver_all")
	if got := f.count(back); got != "0" {
		t.Errorf("a host without the key has sent %s answers back", got)
	}
	alpha.run("deliver_all")
	if got := f.count(back); got != "1" {
		t.Errorf("%s answers came back", got)
	}

	// Signal moves with its keys. It cannot move while some are missing, no matter who requests it.
	open := fmt.Sprint(alpha.run(strings.Fields("signal ask_question --question May_I? --as ann")...)["questionId"])
	beta.env = append(beta.env, "MAILROOM_HOST_NAME=gamma")
	moves := func(o *office, says string) {
		t.Helper()
		if _, answer := o.answerOf("--host-name", "beta", "setting", "set", "signal.host",
			"beta"); !strings.Contains(fmt.Sprint(answer), says) {
			t.Errorf("the answer is %v; want %q", answer, says)
		}
	}
	moves(beta, " does not contain the keys of the phone "+f.count(`SELECT device_id FROM signal_devices`)+", 1 open question")
	if _, answer := alpha.answerOf("setting", "set", "signal.host", "beta"); !strings.Contains(fmt.Sprint(answer),
		"the phone service (signal) can be moved only by a command on the new host, but this host is alpha") {
		t.Errorf("a host says of another that it has the keys: %v", answer)
	}
	from, to := f.keyFolder(alpha), f.keyFolder(beta)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	onlyOwners(t, to)
	daemon := alpha.serve("--phone", "127.0.0.1:0")
	if status := daemon.phoneSays(t); status != http.StatusOK {
		t.Errorf("the listener for phones answers %d", status)
	}
	moves(beta, "signal.host") // the flag takes precedence over the variable
	if status := daemon.phoneSays(t); status != http.StatusServiceUnavailable {
		t.Errorf("the listener for phones where signal was answers %d", status)
	}
	daemon.until(t, "phone connections are refused because the phone service (signal) has moved to another host")
	beta.run("--host-name", "beta", "signal", "device", "list")
	if _, answer := alpha.answerOf("signal", "device", "list"); !strings.Contains(fmt.Sprint(answer),
		"the phone service (signal) runs on the host beta") {
		t.Errorf("after signal has moved: %v", answer)
	}
	alpha.phone("pixel", "answer", open, "Yes")
	if got := fmt.Sprint(beta.run("--host-name", "beta", "signal", "get_response", open)["response"]); got != "Yes" {
		t.Errorf("the answer at the new host: %s", got)
	}

	// Without a phone no keys can be missing.
	alpha.run("signal", "device", "revoke", f.count(`SELECT device_id FROM signal_devices`))
	beta.run("setting", "set", "signal.host", "gamma")
	beta.run("signal", "device", "list")
}

// phoneSays requests the page from the listener for phones.
func (s *serving) phoneSays(t *testing.T) (status int) {
	t.Helper()
	res, err := http.Get(s.phone + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// keyFolder returns where a host stores the keys of signal, in the home of its user.
func (f *fleet) keyFolder(o *office) string {
	id := f.count(`SELECT value FROM settings WHERE key = 'database.id'`)
	i := slices.IndexFunc(o.env, func(line string) bool { return strings.HasPrefix(line, "HOME=") })
	return filepath.Join(strings.TrimPrefix(o.env[i], "HOME="), ".local/state/mailroom", id, "mailroom-signal")
}

// onlyOwners restricts a folder to its owner.
func onlyOwners(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		mode := fs.FileMode(0o600)
		if entry.IsDir() {
			mode = 0o700
		}
		return errors.Join(err, os.Chmod(path, mode))
	})
	if err != nil {
		t.Fatal(err)
	}
}
