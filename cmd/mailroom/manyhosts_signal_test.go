package main

import (
	"fmt"
	"strings"
	"testing"
)

// The host on which a phone was approved has the keys: it alone asks and tells the user, whatever host a message comes from, and sends
// the answers back. The others say which it is.
func TestSignalOnManyHosts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "alpha", "beta")
	alpha, beta := f.hosts["alpha"], f.hosts["beta"]
	alpha.phones = t.TempDir()
	beta.run("agent", "add", "ann")
	alpha.run("signal", "device", "approve", alpha.paired("pixel")["fingerprint"])

	for _, command := range []string{"device list", "get_response q-0123456789", `ask_question --question May_I? --as ann`} {
		if _, answer := beta.answerOf(strings.Fields("signal " + command)...); !strings.Contains(fmt.Sprint(answer), "signal is served by the host alpha") {
			t.Errorf("signal %s on another host: %v", command, answer)
		}
	}

	id := fmt.Sprint(beta.run("send", "--sender", "ann", "--recipient", "user", "--message-type", "question", "--payload", `"May I?"`)["message_id"])
	beta.run("deliver_all")
	if why := fmt.Sprint(beta.run("why", id)); !strings.Contains(why, "no router on host alpha: signal") {
		t.Errorf("why: %s", why)
	}
	alpha.run("deliver_all")
	if got := f.count(`SELECT status FROM agent_message WHERE message_id = '` + id + `'`); got != "delivered" {
		t.Fatalf("the message to the user is %s", got)
	}
	alpha.phone("pixel", "answer", f.count(`SELECT question_id FROM signal_questions`), "Yes")
	const back = `SELECT count(*) FROM agent_message WHERE recipient = 'ann' AND sender = 'user' AND message_type = 'answer'`
	beta.run("deliver_all")
	if got := f.count(back); got != "0" {
		t.Errorf("a host without the key has sent %s answers back", got)
	}
	alpha.run("deliver_all")
	if got := f.count(back); got != "1" {
		t.Errorf("%s answers came back", got)
	}

	beta.env = append(beta.env, "MAILROOM_HOST_NAME=gamma")
	for _, args := range [][]string{{"setting", "set", "signal.host", "beta"}, {"signal", "device", "list"}} {
		beta.run(append([]string{"--host-name", "beta"}, args...)...) // which comes before the variable
	}
	if _, answer := alpha.answerOf("signal", "device", "list"); !strings.Contains(fmt.Sprint(answer), "signal is served by the host beta") {
		t.Errorf("after signal has moved: %v", answer)
	}
}
