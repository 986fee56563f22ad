package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"mailroom/commands/signal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// phoneOf is a phone of the user in a test that has its own router.
type phoneOf struct {
	m *matrix
	pocket
}

// newPhone pairs and approves a phone.
func newPhone(m *matrix) *phoneOf {
	m.t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		m.t.Fatal(err)
	}
	code, _, err := questions.StartPairing(m.t.Context(), m.router.Ledger)
	if err != nil {
		m.t.Fatal(err)
	}
	d, _, err := questions.Pair(m.t.Context(), m.router.Ledger,
		questions.PairRequest{Code: code, Name: "pocket", Recipient: key.Recipient().String()})
	if err == nil {
		d, err = person.Approve(m.t.Context(), m.router.Ledger, d.Fingerprint)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return &phoneOf{m, pocket{d.ID, key.String()}}
}

// onScreen is a question or an alert as a phone shows it.
type onScreen struct {
	ID, From, Question, Message, AlertType string
	Options                                []string
}

// look returns the only open question and the newest alert.
func (p *phoneOf) look() (question, alert *onScreen) {
	p.m.t.Helper()
	asked, err := questions.List(p.m.t.Context(), p.m.router.Ledger, questions.Filter{Status: questions.Pending})
	if err != nil || len(asked) > 1 {
		p.m.t.Fatalf("%d questions are open: %v", len(asked), err)
	}
	if len(asked) == 1 {
		question = p.open(asked[0].ID)
	}
	alerts, err := questions.Alerts(p.m.t.Context(), p.m.router.Ledger, 1)
	if err != nil {
		p.m.t.Fatal(err)
	}
	if len(alerts) == 1 {
		alert = p.open(alerts[0].ID)
	}
	return question, alert
}

func (p *phoneOf) open(id string) *onScreen {
	p.m.t.Helper()
	text, err := p.read(p.m.t.Context(), p.m.router, id)
	s := new(onScreen)
	if err == nil {
		err = json.Unmarshal([]byte(text), s)
	}
	if err != nil {
		p.m.t.Fatal(err)
	}
	return s
}

// say answers a question with the index of an option or with text.
func (p *phoneOf) say(q *onScreen, what string) {
	p.m.t.Helper()
	if err := p.answer(p.m.t.Context(), p.m.router, q.ID, what); err != nil {
		p.m.t.Fatal(err)
	}
}

// deliver runs deliver_all.
func (m *matrix) deliver() { m.run("", "default", "deliver_all", `{}`) }

// TestEveryVocabularyWritesToTheUser checks that the phone shows, after opening the seal, what an agent writes to the
// user in any vocabulary, and that the asker reads the answer in its own vocabulary.
func TestEveryVocabularyWritesToTheUser(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	p := newPhone(m)
	for _, c := range []struct {
		name, command, params string
		question, alert       string // what the phone shows; "question|options" if the message asks
		says                  string // the phone's answer: a text or the index of an option
		read, answer          string // how the asker reads, and the result; {id} is the message's ID
	}{
		{name: "relay", command: "send_message",
			params:   `{"target":"user","message_type":"QUERY","message":"Which branch?","context":"release","priority":"high"}`,
			question: "Which branch?|", says: "main", read: "get_messages",
			answer: `"source":"user","target":"writer","message_type":"RESULT","message":"main"`},
		{name: "relay status", command: "send_message",
			params: `{"target":"user","message_type":"STATUS","message":"All green."}`, alert: "info All green."},
		{name: "ralph", command: "ralph_send",
			params:   `{"to":"user","type":"question","payload":{"taskId":"feat-001","question":"Tabs or spaces?"}}`,
			question: "Tabs or spaces?|", says: "spaces", read: "ralph_inbox",
			answer: `"payload":{"questionId":"{id}","answer":"spaces"}`},
		{name: "ralph with options", command: "ralph_send",
			params:   `{"to":"user","type":"question","payload":{"taskId":"feat-001","question":"Tabs?","options":["yes","no"]}}`,
			question: "Tabs?|yes,no", says: "1", read: "ralph_inbox", answer: `"answer":"no"`},
		{name: "ralph status", command: "ralph_send",
			params: `{"to":"user","type":"status_update","payload":{"agent":"writer","status":"working"}}`,
			alert:  `info {"agent":"writer","status":"working"}`},
		{name: "team text", command: "SendMessage", params: `{"to":"user","message":"Half done."}`,
			alert: "info Half done."},
		{name: "plan approved", command: "SendMessage",
			params:   `{"to":"user","message":{"type":"plan_approval_request","plan":"1. rewrite it"}}`,
			question: "May I carry out this plan? 1. rewrite it|Approve,Reject", says: "0", read: "team_messages",
			answer: `"approve":true,"plan_mode_required":false`},
		{name: "plan rejected", command: "SendMessage",
			params:   `{"to":"user","message":{"type":"plan_approval_request","plan":"2. delete it"}}`,
			question: "May I carry out this plan? 2. delete it|Approve,Reject", says: "1", read: "team_messages",
			answer: `"approve":false,"feedback":"The user rejected the request. Ask what to change`},
		{name: "plan approved with a word", command: "SendMessage",
			params:   `{"to":"user","message":{"type":"plan_approval_request","plan":"3. test it"}}`,
			question: "May I carry out this plan? 3. test it|Approve,Reject", says: "0: but keep it small",
			read:   "team_messages",
			answer: `"approve":true,"feedback":"but keep it small","plan_mode_required":false`},
		{name: "plan rejected with a reason", command: "SendMessage",
			params:   `{"to":"user","message":{"type":"plan_approval_request","plan":"4. ship it"}}`,
			question: "May I carry out this plan? 4. ship it|Approve,Reject", says: "1: not on a Friday",
			read: "team_messages", answer: `"approve":false,"feedback":"not on a Friday"`},
		{name: "shutdown rejected with a reason", command: "SendMessage",
			params:   `{"to":"user","message":{"type":"shutdown_request","reason":"it is late"}}`,
			question: "Shut down? it is late|Approve,Reject", says: "1: finish the tests", read: "team_messages",
			answer: `"approve":false,"reason":"finish the tests"`},
		{name: "shutdown", command: "SendMessage",
			params:   `{"to":"user","message":{"type":"shutdown_request","reason":"all is done"}}`,
			question: "Shut down? all is done|Approve,Reject", says: "0", read: "team_messages",
			answer: `"type":"shutdown_response"`},
		{name: "coral", command: "coral_send_message", params: `{"threadId":"direct:user","content":"Look at this."}`,
			alert: "info Look at this."},
		{name: "route question", command: "send",
			params:   `{"sender":"writer","recipient":"user","message_type":"question","payload":{"question":"Ship?","options":["ship","wait"]}}`,
			question: "Ship?|ship,wait", says: "0", read: "wait", answer: `"answer":"ship"`},
		{name: "yes, but", command: "send",
			params:   `{"sender":"writer","recipient":"user","message_type":"QUERY","payload":{"question":"Ship now?","options":["yes","no"]}}`,
			question: "Ship now?|yes,no", says: "0: but only on staging", read: "wait",
			answer: `"message":"yes: but only on staging"`},
		{name: "route note", command: "send",
			params: `{"sender":"writer","recipient":"user","message_type":"error_report","payload":"disk full"}`,
			alert:  "error disk full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := &matrix{t, m.router, m.log}
			mine := &phoneOf{own, p.pocket}
			sent := own.run("writer", "default", c.command, "%s", c.params)
			own.deliver()
			question, alert := mine.look()
			if c.alert != "" {
				if question != nil || alert == nil || alert.From != "writer" ||
					alert.AlertType+" "+alert.Message != c.alert {
					t.Fatalf("the phone shows %+v and %+v", question, alert)
				}
				return
			}
			if question == nil || question.From != "writer" ||
				question.Question+"|"+strings.Join(question.Options, ",") != c.question {
				t.Fatalf("the phone shows %+v", question)
			}
			own.deliver()
			mine.say(question, c.says)
			own.deliver()
			id := ""
			for _, key := range []string{"messageId", "message_id", "id"} {
				var fields map[string]any
				if body, _ := orchestrator.JSON(sent); json.Unmarshal(body, &fields) == nil && fields[key] != nil &&
					id == "" {
					id = fmt.Sprint(fields[key])
				}
			}
			read := own.shown(own.run("writer", "default", c.read, `{}`))
			if want := strings.ReplaceAll(c.answer, "{id}", id); !strings.Contains(read, want) ||
				!strings.Contains(read, id) {
				t.Errorf("the asker of %s reads %s, without %s", id, read, want)
			}
		})
	}
	if n := m.count(`SELECT count(*) FROM signal_questions WHERE returned_at = '' OR encrypted = 0`); n != "0" {
		t.Errorf("%s answers have not gone back, or were not sealed", n)
	}
}

// count returns the first value of a query.
func (m *matrix) count(query string) string {
	m.t.Helper()
	table, err := m.router.Query(m.t.Context(), query, store.Bound{Rows: 1})
	if err != nil {
		m.t.Fatal(err)
	}
	return fmt.Sprint(table.Rows.Values()[0][0])
}

// TestForgedAnswerToAMessage checks that a forged answer, or one that nobody can open any more, does not reach the
// asker.
func TestForgedAnswerToAMessage(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	p := newPhone(m)
	m.run("writer", "default", "send_message", `{"target":"user","message_type":"QUERY","message":"Deploy?"}`)
	m.deliver()
	question, _ := p.look()
	if _, err := questions.Answer(t.Context(), m.router.Ledger, question.ID, p.Device,
		base64.StdEncoding.EncodeToString([]byte("yes, deploy"))); err != nil {
		t.Fatal(err)
	}
	m.deliver()
	if again, _ := p.look(); again == nil || again.ID != question.ID {
		t.Fatal("a forged answer ended the question")
	}
	if n := m.count(`SELECT count(*) FROM agent_message WHERE sender = 'user'`); n != "0" {
		t.Errorf("%s answers went back", n)
	}
	p.say(question, "no")
	m.deliver()
	read := m.shown(m.run("writer", "default", "get_messages", `{}`))
	if !strings.Contains(read, `"message":"no"`) {
		t.Errorf("the asker reads %s", read)
	}
}

// TestAnswerIsKeptWhileItsKeyCannotBeRead checks that an answer is kept while its key cannot be read, and that a
// question whose key is gone ends with a report.
func TestAnswerIsKeptWhileItsKeyCannotBeRead(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	p := newPhone(m)
	m.run("writer", "default", "send_message", `{"target":"user","message_type":"QUERY","message":"Deploy?"}`)
	m.deliver()
	question, _ := p.look()
	p.say(question, "no, by no means")
	key := filepath.Join(m.router.Ledger.FilePrefix()+"-signal", "replies", question.ID)
	whole, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("{"), 0o600); err != nil { // as if a file descriptor or the disk were missing
		t.Fatal(err)
	}
	if err := signal.NewUser(m.router.Ledger).(orchestrator.Returning).Return(t.Context()); orchestrator.CodeOf(err) != orchestrator.Unavailable {
		t.Errorf("the error is %v", err)
	}
	if n := m.count(`SELECT count(*) FROM agent_message WHERE sender = 'user'`); n != "0" {
		t.Errorf("%s answers went back", n)
	}
	if err := os.WriteFile(key, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	m.deliver()
	if read := m.shown(m.run("writer", "default", "get_messages", `{}`)); !strings.Contains(read, "no, by no means") {
		t.Errorf("the asker reads %s", read)
	}

	m.run("writer", "default", "send_message", `{"target":"user","message_type":"QUERY","message":"Now?"}`)
	m.deliver()
	question, _ = p.look()
	p.say(question, "yes")
	if err := os.Remove(filepath.Join(m.router.Ledger.FilePrefix()+"-signal", "replies", question.ID)); err != nil {
		t.Fatal(err)
	}
	m.deliver()
	if read := m.shown(m.run("writer", "default", "get_messages", `{}`)); !strings.Contains(read, "error_report") {
		t.Errorf("the asker reads %s", read)
	}
}

// TestAnswerOfAnotherGoesNowhere checks that a forged asker of a question, or a forged sender of the message that
// asked, does not get the answer.
func TestAnswerOfAnotherGoesNowhere(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	p := newPhone(m)
	theirs := m.value(m.run("thief", "default", "send_message",
		`{"target":"user","message_type":"STATUS","message":"All green."}`), "messageId")
	m.deliver()
	sealed := m.value(m.run("writer", "default", "ask_question", `{"question":"Which key?"}`), "questionId")
	question, _ := p.look()
	p.say(question, "Canary")
	m.exec(`UPDATE signal_questions SET message_id = ? WHERE question_id = ?`, theirs, sealed)
	m.deliver()
	m.exec(`UPDATE signal_questions SET asker = 'thief' WHERE question_id = ?`, sealed)
	m.deliver()
	m.exec(`UPDATE signal_questions SET asker = 'writer' WHERE question_id = ?`, sealed)

	// The same holds for a forged sender of the message that asked.
	asks := m.value(m.run("writer", "default", "send_message",
		`{"target":"user","message_type":"QUERY","message":"Which branch?"}`), "messageId")
	m.deliver()
	question, _ = p.look()
	p.say(question, "Canary")
	m.exec(`UPDATE agent_message SET sender = 'thief' WHERE message_id = ?`, asks)
	m.deliver()
	if n := m.count(`SELECT count(*) FROM agent_message WHERE sender = 'user' OR payload LIKE '%Canary%'`); n != "0" {
		t.Errorf("%s answers went to somebody", n)
	}
	if read := m.shown(m.run("writer", "default", "get_response", `{"questionId":"%s"}`,
		sealed)); !strings.Contains(read, "Canary") {
		t.Errorf("the asker reads %s", read)
	}
}

// exec changes the table directly, as any program could.
func (m *matrix) exec(statement string, args ...any) {
	m.t.Helper()
	db := enginetest.Plain(m.t, m.router.Path())
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		m.t.Fatal(err)
	}
}

// TestQuestionByHandWithoutAPhone checks that a question inserted into the table while no phone is paired is retried,
// and that its trace contains what to do.
func TestQuestionByHandWithoutAPhone(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	m.exec(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload)
		VALUES ('m1', 'writer', 'user', 'QUERY', '{"message":"Who is there?"}')`)
	m.deliver()
	const why = `SELECT status || ' ' || error_message FROM agent_message WHERE recipient = 'user'`
	if said := m.count(why); !strings.HasPrefix(said, "retry ") ||
		!strings.Contains(said, "Pair a phone with `mailroom signal pair`") {
		t.Errorf("it is %s", said)
	}
}

// TestAlertToTheUserWaitsForADevice checks that a message that informs the user is kept as an alert while there is no
// device, with a note that it waits, and is delivered once when the first device is approved. A device that is active
// only in the table does not count.
func TestAlertToTheUserWaitsForADevice(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	sent := m.shown(m.run("writer", "default", "send_message",
		`{"target":"user","message_type":"STATUS","message":"Deployed"}`))
	if !strings.Contains(sent, `"status":"pending"`) || !strings.Contains(sent, `"note":"waits for a device"`) {
		t.Errorf("it answers %s", sent)
	}
	for command, params := range map[string]string{
		"send":               `{"recipient":"user","message_type":"note","payload":"By route"}`,
		"SendMessage":        `{"to":"user","message":"By team"}`,
		"ralph_send":         `{"to":"user","type":"note","payload":{"text":"By ralph"}}`,
		"coral_send_message": `{"threadId":"direct:user","content":"By coral"}`,
	} {
		if sent := m.shown(m.run("writer", "default", command, "%s", params)); !strings.Contains(sent,
			`"note":"waits for a device"`) {
			t.Errorf("%s answers %s", command, sent)
		}
	}
	m.exec(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload)
		VALUES ('m1', 'writer', 'user', 'note', '"By hand"')`)
	const state = `SELECT group_concat(DISTINCT status || ' ' || held || ' ' || CASE WHEN delivered_at IS NULL THEN 1 ELSE 0 END) FROM agent_message WHERE recipient = 'user'`
	for range 3 {
		m.deliver()
		if got := m.count(state); got != "pending 1 1" {
			t.Errorf("they are %s", got)
		}
	}
	why := m.shown(m.run("", "default", "why", `{"message_id":"m1"}`))
	if !strings.Contains(why, "no approved device can show it") || !strings.Contains(why, "mailroom signal pair") ||
		strings.Contains(why, `"what":"delivered"`) {
		t.Errorf("why says %s", why)
	}
	if got := m.count(`SELECT count(*) || ' ' || count(DISTINCT message_id) || ' ' || sum(encrypted)
		FROM signal_alerts`); got != "6 6 6" {
		t.Errorf("alerts: %s", got)
	}
	alert := m.count(`SELECT alert_id FROM signal_alerts WHERE message_id = 'm1'`)
	if why := m.shown(m.run("", "default", "why", `{"message_id":"%s"}`, alert)); !strings.Contains(why,
		"no approved device can show it yet") {
		t.Errorf("why says of the alert %s", why)
	}
	phone := newPhone(m)
	m.deliver()
	if got := m.count(state); got != "delivered 0 0" {
		t.Errorf("with a phone they are %s", got)
	}
	if got := m.count(`SELECT count(*) FROM signal_alerts`); got != "6" {
		t.Errorf("alerts: %s", got)
	}
	if shown := phone.open(alert); shown.Message != "By hand" || shown.From != "writer" {
		t.Errorf("the phone shows %+v", shown)
	}
	if sent := m.shown(m.run("writer", "default", "send_message",
		`{"target":"user","message_type":"STATUS","message":"Again"}`)); strings.Contains(sent, "note") {
		t.Errorf("with a phone it answers %s", sent)
	}

	m.deliver()
	if err := os.RemoveAll(m.router.Ledger.FilePrefix() + "-signal/devices"); err != nil {
		t.Fatal(err)
	}
	m.run("writer", "default", "send", `{"recipient":"user","message_type":"note","payload":"Unpinned"}`)
	m.deliver()
	if got := m.count(`SELECT status || ' ' || held || ' ' || CASE next_attempt_at WHEN '' THEN 0 ELSE 1 END
		FROM agent_message WHERE payload LIKE '%Unpinned%' AND recipient = 'user'`); got != "pending 0 1" {
		t.Errorf("with a phone that was not approved here it is %s", got)
	}
}

// TestMalformedMessagesToTheUser checks that a malformed question to the user fails at once with a reason for its
// sender, and that the phone shows nothing. An empty list of options asks for a text.
func TestMalformedMessagesToTheUser(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	phone := newPhone(m)
	for payload, says := range map[string]string{
		`{"taskId":"t","question":"Canary?","options":["1","2","3","4","5","6"]}`:            "there are 6 options; the limit is 5",
		`{"taskId":"t","question":"Canary?","options":["Canary","Canary "]}`:                 "two options are the same",
		`{"taskId":"t","question":"Canary?","options":["Canary",1]}`:                         "must be a list of texts",
		`{"taskId":"t","question":"Canary?","options":["` + strings.Repeat("x", 101) + `"]}`: "101 characters",
		`{"taskId":"t","question":"Canary?","options":[" "]}`:                                "visible text",
		`{"taskId":"t","question":{"text":"Canary?"}}`:                                       "question: must be a text",
		`{"taskId":"t","question":"","options":["Canary"]}`:                                  "question: must not be empty",
		`["Canary"]`:   "must be a text or an object",
		` ["Canary"] `: "must be a text or an object",
		`7`:            "must be a text or an object",
		`null`:         "its text is empty",
		`" "`:          "its text is empty",
	} {
		id := m.router.Now().Format("m150405.000000000")
		m.exec(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload)
			VALUES (?, 'writer', 'user', 'question', ?)`, id, payload)
		m.deliver()
		if got := m.count(`SELECT status || ' ' || retry_count FROM agent_message WHERE message_id = '` + id +
			`'`); got != "failed 0" {
			t.Errorf("%s is %s", payload, got)
		}
		report := m.count(`SELECT payload FROM agent_message WHERE recipient = 'writer'
			AND message_type = 'error_report' AND reply_to = '` + id + `'`)
		if !strings.Contains(report, says) || !strings.Contains(report, "rejected the message") ||
			strings.Contains(report, "Canary") {
			t.Errorf("%s is answered with %s", payload, report)
		}
	}
	if q, a := phone.look(); q != nil || a != nil {
		t.Errorf("the phone shows %+v, %+v", q, a)
	}
	m.run("writer", "default", "send_message",
		`{"target":"user","message_type":"QUERY","message":"Which name?","payload":{"options":[],"taskId":5}}`)
	m.deliver()
	q, _ := phone.look()
	if q == nil || q.Question != "Which name?" || len(q.Options) != 0 {
		t.Fatalf("the phone shows %+v", q)
	}
	phone.say(q, "Any")
	m.deliver()
	if got := m.count(`SELECT payload FROM agent_message WHERE sender = 'user'
		AND recipient = 'writer'`); got != `{"message":"Any"}` {
		t.Errorf("the answer is %s", got)
	}
}
