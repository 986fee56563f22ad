package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// TestWebhookAgent tests an agent with a webhook from the command line to its server: the address must be allowed to
// be on this machine, the server verifies requests with the secret that the command printed, and finally answers that
// it is gone.
func TestWebhookAgent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var hook *standardwebhooks.Webhook
	status, got := http.StatusOK, []string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = hook.Verify(body, r.Header)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		event, eventErr := cloudevents.NewEventFromHTTPRequest(r)
		if err != nil || eventErr != nil || event.Validate() != nil {
			t.Errorf("%v, %v\n%s", err, eventErr, body)
			return
		}
		got = append(got, r.Header.Get("webhook-id"))
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(status)
		io.WriteString(w, "thanks for "+event.Type())
	}))
	t.Cleanup(server.Close)

	o := newOffice(t, "architect")
	refused, err := o.command("agent", "add", "hook", "--deliver", "webhook:"+server.URL+"/in?key=k1").Output()
	if err == nil || !strings.Contains(string(refused), "--allow-private") {
		t.Fatalf("an address of this machine: %v %s", err, refused)
	}
	added, _ := o.run("agent", "add", "hook", "--allow-private", "--deliver",
		"webhook:"+server.URL+"/in?key=k1")["agent"].(map[string]any)
	secret, _ := added["webhook_secret"].(string)
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil || !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("%v: %v", added, err)
	}
	mu.Lock()
	hook = verifier
	mu.Unlock()
	send := func(kind string) string {
		id, _ := o.run("send", "--sender", "architect", "--recipient", "hook", "--message-type", kind, "--payload",
			`{"n":1.10}`)["message_id"].(string)
		return id
	}
	query := func(what, want string) {
		t.Helper()
		if rows := strings.Join(o.rows(what), "\n"); !strings.Contains(rows, want) {
			t.Errorf("%s:\n%s\nwant %q", what, rows, want)
		}
	}

	first := send("note")
	o.run("deliver_all")
	query(`SELECT status, retry_count FROM agent_message WHERE message_id = '`+first+`'`, "delivered|0")
	query(`SELECT detail FROM message_trace WHERE event = 'delivered'`, "HTTP 200 OK\nthanks for mailroom.message.note")

	says := func(want string, command ...string) {
		t.Helper()
		if out, err := o.command(append(command, "--output", "text")...).CombinedOutput(); err != nil &&
			command[0] != "doctor" || !strings.Contains(string(out), want) {
			t.Errorf("%q, %v:\n%s\nwant %q", command, err, out, want)
		}
	}
	says("its server accepted the message", "why", first)

	answer := func(code int) {
		mu.Lock()
		defer mu.Unlock()
		status = code
	}
	answer(http.StatusServiceUnavailable)
	third := send("busy")
	o.run("deliver_all")
	says("the recipient asked for no further attempt within 2m\n", "why", third)
	o.run("cancel", third)

	answer(http.StatusGone)
	second := send("question")
	says("The address of hook no longer exists", "deliver_all")
	o.run("deliver_all")
	says("(disabled) webhook:", "agent", "list")
	says("410 Gone", "agent", "show", "hook")
	query(`SELECT disabled FROM agents WHERE name = 'hook'`, "no longer exists")
	query(`SELECT status FROM agent_message WHERE message_id = '`+second+`'`, "pending")

	// The doctor's own test can detect it and prints what to do. The test leaves no waiting message.
	o.run("cancel", second)
	o.run("agent", "add", "hook", "--deliver", "webhook:"+server.URL+"/again", "--allow-private")
	says("Mailroom has disabled the transport\n    To set another address, run `mailroom agent add hook --deliver ...`", "doctor", "--try")
	query(`SELECT count(*) FROM agent_message WHERE status IN ('pending', 'retry')`, "0")
	says("ok  failed: no message failed or expired", "doctor")

	// The secret, also a chosen one, appears only where it must.
	o.run("agent", "add", "hook", "--secret", secret)
	for _, command := range [][]string{{"agent", "show", "hook"}, {"agent", "list"}, {"trace", first}} {
		if out, err := o.command(command...).CombinedOutput(); err != nil || strings.Contains(string(out), secret) {
			t.Errorf("%q shows the secret, or fails: %v", command, err)
		}
	}
	query(`SELECT count(*) FROM command_trace WHERE attributes LIKE '%whsec%'`, "0")
	mu.Lock()
	defer mu.Unlock()
	if want := first + " " + third + " " + second + " "; !strings.HasPrefix(strings.Join(got, " "), want) ||
		len(got) != 4 {
		t.Errorf("arrived: %q, want %q", got, want)
	}
}
