package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// anID is a parameter that holds the ID of something that may belong to another agent.
type anID struct {
	parameter string // "COMMAND PARAMETER"
	params    string // parameters of a call; %q is the ID
	kind      string // message, thread, question or request
}

// idParameters lists all parameters in which an agent may pass an ID.
var idParameters = []anID{
	{"acknowledge message_id", `{"message_id":%q}`, "message"},
	{"cancel message_id", `{"message_id":%q}`, "message"},
	{"reply message_id", `{"message_id":%q,"payload":"approve"}`, "message"},
	{"send reply_to", `{"recipient":"writer","message_type":"answer","payload":{"approve":true},"reply_to":%q}`,
		"message"},
	{"send reply_to", `{"recipient":"stranger","message_type":"question","reply_to":%q}`, "message"},
	{"route-inter-agent-messages REPLY_TO",
		`{"ACTION":"send","RECIPIENT":"writer","MESSAGE_TYPE":"note","REPLY_TO":%q}`, "message"},
	{"wait reply_to", `{"timeout":0,"reply_to":%q}`, "message"},
	{"send_message reply_to", `{"target":"writer","message_type":"RESULT","message":"approve","reply_to":%q}`,
		"message"},
	{"send_message reply_to", `{"target":"writer","message_type":"ACK","message":"ok","reply_to":%q}`, "message"},
	{"send_message reply_to", `{"target":"all","message_type":"STATUS","message":"ok","reply_to":%q}`, "message"},
	{"send_message threadId", `{"target":"writer","message_type":"STATUS","message":"ok","threadId":%q}`, "thread"},
	{"get_sent_messages threadId", `{"threadId":%q}`, "thread"},
	{"SendMessage reply_to", `{"to":"writer","message":"approve","reply_to":%q}`, "message"},
	{"SendMessage message", `{"to":"writer","message":{"type":"shutdown_response","request_id":%q,"approve":true}}`,
		"request"},
	{"SendMessage message",
		`{"to":"reader","message":{"type":"plan_approval_response","request_id":%q,"approve":true}}`, "request"},
	{"get_message message_id", `{"message_id":%q}`, "message"},
	{"read_thread thread_id", `{"thread_id":%q}`, "thread"},
	{"rename_thread thread_id", `{"thread_id":%q,"name":"mine"}`, "thread"},
	{"search_messages thread_id", `{"thread_id":%q}`, "thread"},
	{"release message_id", `{"message_id":%q}`, "message"},
	{"coral_add_participant threadId", `{"threadId":%q,"participantId":"stranger"}`, "thread"},
	{"coral_remove_participant threadId", `{"threadId":%q,"participantId":"writer"}`, "thread"},
	{"coral_close_thread threadId", `{"threadId":%q}`, "thread"},
	{"coral_send_message threadId", `{"threadId":%q,"content":"hi","mentions":["writer"]}`, "thread"},
	{"coral_send_message reply_to", `{"reply_to":%q,"content":"approve"}`, "message"},
	{"coral_send_message reply_to", `{"threadId":"direct:writer","reply_to":%q,"content":"approve"}`, "message"},
	{"coral_wait_for_mentions reply_to", `{"timeoutMs":0,"reply_to":%q}`, "message"},
	{"ralph_send replyTo", `{"to":"writer","type":"note","replyTo":%q}`, "message"},
	{"ralph_send replyTo", `{"to":"writer","type":"shutdown_response","payload":{"approve":true},"replyTo":%q}`,
		"message"},
	{"ralph_ack id", `{"id":%q}`, "message"},
	{"get_response questionId", `{"questionId":%q}`, "question"},
	{"get_response questionId", `{"questionId":%q,"wait_seconds":1}`, "question"},
	{"signal_cancel questionId", `{"questionId":%q}`, "question"},
	{"ask_question inReplyTo", `{"question":"Now?","inReplyTo":%q}`, "question"},
	{"ask_question threadId", `{"question":"Now?","threadId":%q}`, "question"},
	{"why message_id", `{"message_id":%q}`, "message"},
	{"why message_id", `{"message_id":%q}`, "question"},
	{"dead_letters_replay message_id", `{"message_id":%q}`, "message"},
}

// noForeignID lists parameters that look like IDs but refer to nothing that belongs to another agent.
var noForeignID = map[string]string{
	"ralph_send id":          "it is to become the message's own, and each is one message's: that it is taken must be said",
	"send_message sessionId": "a session is a name, known to all",
	"send_alert sessionId":   "the same",
	"get_messages sessionId": "the same",
	"route-inter-agent-messages ORCHESTRATOR_INSTANCE_ID": "it names the process that asks",
	"coral_register_agent agentId":                        "agents are known to all",
	"coral_wait_for_mentions agentId":                     "the same",
	"coral_send_message senderId":                         "the same",
	"coral_create_thread creatorId":                       "the same",
	"coral_add_participant participantId":                 "the same",
	"coral_remove_participant participantId":              "the same",
	"ask_question projectId":                              "it is a word of the asker's",
}

// looksLikeID matches the names of parameters that hold an ID.
var looksLikeID = regexp.MustCompile(`(?i)^id$|[_a-z]id$|^reply_?to$|inReplyTo`)

// TestStrangersLearnNothingOfAnID checks that an agent that neither sent nor received a message, and takes no part in
// its thread, gets the same answer for its ID as for an ID that does not exist, with every command.
func TestStrangersLearnNothingOfAnID(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	m.run("", "default", "agent_add", `{"name":"stranger"}`)
	ids := m.foreignIDs()
	for _, p := range idParameters {
		command, _, _ := strings.Cut(p.parameter, " ")
		none := ids[p.kind][0]
		none = none[:len(none)-10] + "0000000000" // same form, but assigned to nothing
		want := m.answerTo("stranger", command, p.params, none)
		for _, id := range ids[p.kind] {
			if got := m.answerTo("stranger", command, p.params, id); got != want {
				t.Errorf("%s %s: for what is %s\n%s\nfor nothing\n%s", command, p.params, id, got, want)
			}
		}
	}
}

// TestIDsOfStrangersAreAllLookedAt checks that the tables above list every parameter that holds an ID.
func TestIDsOfStrangersAreAllLookedAt(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, p := range idParameters {
		known[p.parameter] = true
	}
	for name := range noForeignID {
		known[name] = true
	}
	for _, d := range config().Catalogue.All() {
		card := d.Card()
		for _, p := range d.Params() {
			name := d.Name + " " + p.Name
			if card.Rights == "self" && (p.NameOf == "id" || looksLikeID.MatchString(p.Name)) && !known[name] {
				t.Errorf("%s: say what a stranger gets for it", name)
			}
			delete(known, name)
		}
	}
	for name := range known {
		t.Errorf("there is no parameter %s", name)
	}
}

// foreignIDs returns, by kind, IDs of things that the agent stranger must not learn about.
func (m *matrix) foreignIDs() map[string][]string {
	m.t.Helper()
	send := func(to string) string {
		return m.value(m.run("writer", "default", "send", `{"recipient":%q,"message_type":"note"}`, to), "message_id")
	}
	deliver := func() { m.run("", "default", "deliver_all", `{}`) }
	read := send("reader")
	deliver()
	m.run("reader", "default", "wait", `{"timeout":0}`)
	cancelled := send("reader")
	m.run("writer", "default", "cancel", `{"message_id":%q}`, cancelled)
	dead := m.deadLetter()
	thread := m.value(m.run("writer", "default", "coral_create_thread",
		`{"threadName":"x","participantIds":["reader"]}`), "threadId")
	elsewhere := m.value(m.run("writer", "elsewhere", "coral_create_thread", `{"threadName":"x"}`), "threadId")
	closed := m.value(m.run("writer", "default", "coral_create_thread", `{"threadName":"x"}`), "threadId")
	m.run("writer", "default", "coral_close_thread", `{"threadId":%q}`, closed)
	post := m.value(m.run("writer", "default", "coral_send_message",
		`{"threadId":%q,"content":"hi","mentions":["reader"]}`, thread), "id")
	plan := m.run("writer", "default", "SendMessage",
		`{"to":"reader","message":{"type":"plan_approval_request","plan":"x"}}`)
	stop := m.run("writer", "default", "SendMessage", `{"to":"third","message":{"type":"shutdown_request"}}`)
	deliver()
	pending := send("reader")
	group := send("readers")
	answered := m.value(m.run("writer", "default", "SendMessage",
		`{"to":"third","message":{"type":"plan_approval_request","plan":"x"}}`), "request_id")
	m.run("third", "default", "SendMessage",
		`{"to":"writer","message":{"type":"plan_approval_response","request_id":%q,"approve":true}}`, answered)
	return map[string][]string{
		"message": append(m.column(`SELECT message_id FROM agent_message WHERE multicast_id IN (?1, ?2)`, post, group),
			read, cancelled, dead, pending, group, post, m.value(plan, "message_id"), m.value(stop, "message_id")),
		"thread":   {thread, elsewhere, closed},
		"request":  {m.value(plan, "request_id"), m.value(stop, "request_id"), answered},
		"question": {m.question(false), m.question(true)},
	}
}

// deadLetter creates a failed message and returns its ID.
func (m *matrix) deadLetter() string {
	m.t.Helper()
	_, err := messages.Send(m.t.Context(), m.router.Ledger, orchestrator.Draft{Sender: "writer", Recipient: "nobody"})
	var refused *orchestrator.Error
	if !errors.As(err, &refused) || refused.MessageID == "" {
		m.t.Fatal(err)
	}
	return refused.MessageID
}

// question creates a question from writer, cancels it if cancelled is set, and returns its ID.
func (m *matrix) question(cancelled bool) string {
	m.t.Helper()
	id, err := questions.NewSignalID(m.router.Ledger, "q-")
	if err == nil {
		_, _, err = questions.Ask(m.t.Context(), m.router.Ledger,
			questions.Draft{ID: id, Asker: "writer", Body: `{"question":"Now?"}`, TTL: time.Hour})
	}
	if err == nil && cancelled {
		_, err = questions.Cancel(m.t.Context(), m.router.Ledger, id, "writer")
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return id
}

// column returns the first column of all rows of a query.
func (m *matrix) column(query string, args ...any) (values []string) {
	m.t.Helper()
	table, err := m.router.Query(m.t.Context(), query, store.Bound{Rows: 100}, args...)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, row := range table.Rows.Values() {
		values = append(values, fmt.Sprint(row[0]))
	}
	return values
}

// passing matches the IDs and times in which two answers of the same kind differ.
var passing = regexp.MustCompile(`[a-z]+-[0-9A-HJKMNP-TV-Z]{26}|\d{4}-\d\d-\d\dT[\d:.]+Z`)

// answerTo runs a command with an ID as an agent and returns the answer or the error. ID replaces the given ID, and *
// replaces other IDs and times.
func (m *matrix) answerTo(agent, command, params, id string) string {
	m.t.Helper()
	d, err := config().Catalogue.Lookup(command)
	if err != nil {
		m.t.Fatal(err)
	}
	env := commands.Env{Engine: m.router, Caller: commands.Caller{Name: agent, Session: "default"}, Log: m.log,
		Catalogue: config().Catalogue}
	answer, failure := d.Run(m.t.Context(), env, json.RawMessage(fmt.Sprintf(params, id)))
	said := any(answer)
	if failure != nil {
		said = commands.Failure{Err: failure}
	}
	body, err := orchestrator.JSON(said)
	if err != nil {
		m.t.Fatal(err)
	}
	return fmt.Sprint(commands.HTTPStatus(failure), " ",
		passing.ReplaceAllString(strings.ReplaceAll(string(body), id, "ID"), "*"))
}
