package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// TestRalphIDsOfManyProcesses checks that fifty processes that send to one recipient at the same time create one ID
// each, and that the sequence of every second counts from 001 without a gap.
func TestRalphIDsOfManyProcesses(t *testing.T) {
	t.Parallel()
	const processes = 50
	o := newOffice(t, "pm", "qa", "developer")
	begin := make(chan struct{})
	answers := make([][]byte, processes)
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() {
			<-begin
			var err error
			answers[i], err = o.command("ralph", "send", "--from", []string{"pm", "qa"}[i%2], "--to", "developer",
				"--type", "note",
				"--payload", fmt.Sprintf(`{"n":%d}`, i)).Output()
			if err != nil {
				t.Errorf("process %d: %v: %s", i, err, answers[i])
			}
		})
	}
	close(begin)
	all.Wait()
	form := regexp.MustCompile(`^(msg-developer-\d{8}-\d{6})-(\d{3})$`)
	answered, sequences := []string{}, map[string][]string{}
	for _, answer := range answers {
		var sent struct{ ID, Timestamp string }
		if err := json.Unmarshal(answer, &sent); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		parts := form.FindStringSubmatch(sent.ID)
		if parts == nil {
			t.Fatalf("the id %q", sent.ID)
		}
		if second := strings.NewReplacer("-", "", "T", "-", ":",
			"").Replace(sent.Timestamp[:19]); parts[1] != "msg-developer-"+second {
			t.Errorf("%s was sent at %s", sent.ID, sent.Timestamp)
		}
		answered, sequences[parts[1]] = append(answered, sent.ID), append(sequences[parts[1]], parts[2])
	}
	for second, have := range sequences {
		slices.Sort(have)
		for i := range have {
			if have[i] != fmt.Sprintf("%03d", i+1) {
				t.Fatalf("%s has the sequences %q", second, have)
			}
		}
	}
	slices.Sort(answered)
	if stored := o.rows(`SELECT message_id FROM agent_message ORDER BY message_id`); !slices.Equal(stored, answered) {
		t.Errorf("stored are\n%q\nanswered were\n%q", stored, answered)
	}
}

// TestRalphExamplesReturn checks that inbox shows each message of document 002 exactly as send answered it, with the
// document's keys and no others.
func TestRalphExamplesReturn(t *testing.T) {
	t.Parallel()
	keys := regexp.MustCompile(`^\{"id":"msg-reader-\d{8}-\d{6}-001","from":"[a-z]+","to":"reader","type":"[a-z_]+","priority":"(normal|high)",` +
		`"payload":\{.*\},"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z","status":"pending","replyTo":null\}$`)
	for _, s := range ralphExample.steps {
		if s.tool != "send" || strings.Contains(s.want, `"error"`) {
			continue
		}
		m := newMatrix(t)
		var params map[string]json.RawMessage
		if err := json.Unmarshal([]byte(s.args), &params); err != nil {
			t.Fatal(err)
		}
		delete(params, "replyTo")
		params["to"] = json.RawMessage(`"reader"`)
		text, err := orchestrator.JSON(params)
		if err != nil {
			t.Fatal(err)
		}
		sent := m.shown(m.run(s.as, "default", "ralph_send", "%s", text))
		sent = strings.Replace(sent, `"success":true,"action":"ralph_send",`, "", 1)
		if !keys.MatchString(sent) {
			t.Errorf("send answers %s", sent)
		}
		want := `{"success":true,"action":"ralph_inbox","agent":"reader","count":1,"has_more":false,"messages":[` +
			sent + `]}`
		if got := m.shown(m.run("reader", "default", "ralph_inbox", `{}`)); got != want {
			t.Errorf("inbox shows\n%s\nwant\n%s", got, want)
		}
		var payload struct{ Payload json.RawMessage }
		if err := json.Unmarshal([]byte(sent), &payload); err != nil || string(payload.Payload) != m.row()["payload"] {
			t.Errorf("stored is %s, %v", m.row()["payload"], err)
		}
	}
}

// TestRalphInboxUnwritten checks that messages are read after their answer was written, and not before, whatever the
// agent's transport is.
func TestRalphInboxUnwritten(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	for name, deliver := range map[string]string{"reader": "inbox", "third": "dir:" + t.TempDir()} {
		m.run("", "default", "agent_add", `{"name":%q,"deliver":%q}`, name, deliver)
		m.run("writer", "default", "ralph_send", `{"to":%q,"type":"note"}`, name)
		env := commands.Env{Engine: m.router}
		read := func() string {
			t.Helper()
			table, err := m.router.Query(t.Context(), `SELECT read_at <> '' FROM agent_message WHERE recipient = ?1`,
				store.Bound{Rows: 1}, name)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(table.Rows.Values()[0][0])
		}
		for _, written := range []bool{false, true} {
			answer := m.ask(name, "default", "ralph_inbox", `{}`)
			if read() != "0" {
				t.Errorf("%s: it is read before its answer was written", deliver)
			}
			if err := answer.Settle(t.Context(), env, written); err != nil || (read() == "1") != written {
				t.Errorf("%s: written %t, read: %s, %v", deliver, written, read(), err)
			}
		}
	}
}
