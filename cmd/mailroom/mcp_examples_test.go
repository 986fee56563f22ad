package main

import (
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// example is a conversation: the unchanged examples of a document, in an order in which they make sense.
type example struct {
	vocabulary string
	setup      []string // command lines
	admins     string   // who may call the tools for administrators
	phone      bool     // there is a phone, called phone, which acts in separate steps
	steps      []step
}

// step is one call of a tool.
type step struct {
	as, tool, args string
	want           string // the answer, see known.match; a failure if it has the key error
	text           string // the text for a model, unless it equals the answer
}

var examples = []example{relayExample, teamExample, coralExample, ralphExample, signalExample}

// relayExample is document 000, "Relay". The document's list of groups does not include analyst in the group all,
// which contains everybody: contract.md, "Who is known".
var relayExample = example{
	vocabulary: "relay", admins: "orchestrator",
	setup: []string{
		"agent add orchestrator", "agent add builder", "agent add reviewer", "agent add castor", "agent add analyst",
		"group set builders builder reviewer", "group set council orchestrator", "group set intelligence analyst",
	},
	steps: []step{
		{"builder", "list_groups", `{}`, `{"success":true,"groups":[
			{"name":"all","members":["analyst","builder","castor","orchestrator","reviewer"]},
			{"name":"builders","members":["builder","reviewer"]},
			{"name":"council","members":["orchestrator"]},
			{"name":"intelligence","members":["analyst"]}]}`, ""},
		{"builder", "send_message", `{
			"source": "builder",
			"target": "orchestrator",
			"message_type": "STATUS",
			"message": "Auth fix complete. PR #42 open. Tests passing."}`,
			`{"success":true,"messageId":"$status","status":"pending","multicastId":null,"targets":null}`, ""},
		{"orchestrator", "send_message", `{
			"source": "orchestrator",
			"target": "all",
			"message_type": "STATUS",
			"message": "Sprint 3 starting. Check your task queues."}`,
			`{"success":true,"messageId":null,"multicastId":"$sprint","recipients":5,"status":"pending","targets":[
			{"target":"analyst","messageId":"*"},{"target":"builder","messageId":"$forBuilder"},{"target":"castor","messageId":"*"},
			{"target":"orchestrator","messageId":"*"},{"target":"reviewer","messageId":"*"}]}`, ""},
		{"orchestrator", "send_message", `{"target":"builder","message_type":"DIRECTIVE","message":"Review PR #43","priority":"high",
			"action":"interrupt","context":"sprint 3","threadId":"t-1","payload":{"pr":43},"ttl":3600,"sessionId":"s-1","reply_to":"$status",
			"idempotency_key":"f47ac10b-58cc-4372-a567-0e02b2c3d479"}`, `{"success":true,"messageId":"$directive","idempotent":null}`, ""},
		{"orchestrator", "send_message", `{"target":"builder","message_type":"DIRECTIVE","message":"Review PR #43","priority":"high",
			"action":"interrupt","context":"sprint 3","threadId":"t-1","payload":{"pr":43},"ttl":3600,"sessionId":"s-1","reply_to":"$status",
			"idempotency_key":"f47ac10b-58cc-4372-a567-0e02b2c3d479"}`, `{"success":true,"messageId":"$directive","idempotent":true}`, ""},
		{"builder", "get_messages", `{"sessionId":"builder","markAsRead":false}`, `{"count":2,"hasInterrupts":true,"messages":[
			{"messageId":"$directive"},{"messageId":"$forBuilder"}]}`, ""},
		{"builder", "get_messages", `{
			"sessionId": "builder",
			"message_type": "DIRECTIVE"}`, `{"success":true,"count":1,"hasInterrupts":true,"messages":[{"messageId":"$directive",
			"source":"orchestrator","target":"builder","message_type":"DIRECTIVE","message":"Review PR #43","priority":"high",
			"action":"interrupt","context":"sprint 3","threadId":"t-1","payload":{"pr":43},"sessionId":"s-1","reply_to":"$status","sentAt":"*"}]}`, ""},
		{"builder", "get_messages", `{"sessionId":"builder"}`, `{"count":1,"hasInterrupts":false,"messages":[{"messageId":"$forBuilder",
			"target":"all","priority":"normal","action":"queue","payload":null}]}`, ""},
		{"builder", "get_messages", `{"sessionId":"builder"}`, `{"success":true,"count":0,"hasInterrupts":false,"messages":[]}`, ""},
		{"orchestrator", "get_messages", `{"sessionId":"orchestrator"}`, `{"count":1,"messages":[
			{"messageId":"$status","message":"Auth fix complete. PR #42 open. Tests passing."}]}`, ""}, // not its own
		{"builder", "get_messages", `{"sessionId":"reviewer"}`, `{"error":"permission_denied","message":"*"}`, ""},
		{"builder", "get_sent_messages", `{}`, `{"success":true,"messages":[{"messageId":"$status","target":"orchestrator","message_type":"STATUS",
			"message":"Auth fix complete. PR #42 open. Tests passing.","status":"delivered","delivered_at":"*","read_at":"*"}]}`, ""},
		{"orchestrator", "get_sent_messages", `{"source":"builder","status":"delivered","target":"orchestrator","limit":50}`,
			`{"messages":[{"messageId":"$status"}]}`, ""},
		{"builder", "get_sent_messages", `{"source":"orchestrator"}`, `{"error":"permission_denied","message":"*"}`, ""},
		{"builder", "send_message", `{"target":"revieuer","message_type":"PING","message":"Are you there?"}`,
			`{"success":false,"error":"unknown_recipient","message":"*","hint":"*"}`, ""},
		{"orchestrator", "get_dead_letters", `{"limit":20}`, `{"success":true,"messages":[{"messageId":"*","source":"builder",
			"target":"revieuer","message_type":"PING","message":"Are you there?","status":"failed","error":"*"}]}`, ""},
		{"orchestrator", "query_message_history", `{"threadId":"t-1"}`, `{"success":true,"messages":[{"messageId":"$directive","message":"Review PR #43"}]}`, ""},
		{"orchestrator", "query_message_history", `{"source":"builder","message_type":"STATUS","status":"delivered","since":"2025-10-26T10:30:00Z","limit":100}`,
			`{"messages":[{"messageId":"$status","source":"builder"}]}`, ""},
		{"orchestrator", "query_message_history", `{"status":"delivered"}`, `{"error":"invalid_params","message":"*"}`, ""},
	},
}

// signalExample is document 000, "Signal". A step of phone is a command line of the program with that name.
var signalExample = example{
	vocabulary: "signal", setup: []string{"agent add builder"}, phone: true,
	steps: []step{
		{"builder", "ask_question", `{
			"question": "The auth refactor will change the JWT signing algorithm from HS256 to RS256. This is a breaking change for existing tokens. Proceed?",
			"options": ["Yes, proceed", "No, keep HS256", "Let me review first"],
			"context": "Working on task abc123. The current HS256 implementation has a known weakness.",
			"priority": "high"}`, `{"success":true,"questionId":"$question","message":"Question sent to device"}`, ""},
		{"builder", "get_response", `{"questionId":"$question"}`, `{"success":true,"answered":false,"response":null,"status":null}`, ""},
		{"phone", "answer $question 0", "", "", ""},
		{"builder", "get_response", `{"questionId":"$question"}`, `{"success":true,"answered":true,"response":"Yes, proceed"}`, ""},
		{"builder", "ask_question", `{"question":"Which date?","encrypt":false,"threadId":"t-1","inReplyTo":"$question","projectId":"p-1"}`,
			`{"success":true,"questionId":"$followup","message":"Question sent to device"}`, ""},
		{"phone", "answer $followup tomorrow", "", "", ""},
		{"builder", "get_response", `{"questionId":"$followup","wait_seconds":55}`, `{"success":true,"answered":true,"response":"tomorrow"}`, ""},
		{"other", "get_response", `{"questionId":"$followup"}`, `{"success":false,"error":"not_found","message":"*"}`, ""},
		{"builder", "ask_question", `{"question":"Still there?"}`, `{"questionId":"$last"}`, ""},
		{"builder", "signal_cancel", `{"questionId":"$last"}`, `{"success":true,"status":"cancelled"}`, ""},
		{"builder", "get_response", `{"questionId":"$last"}`, `{"success":true,"answered":false,"status":"cancelled"}`, ""},
		{"builder", "signal_list", `{"status":"answered"}`, `{"count":2,"questions":[{"question":"Which date?","threadId":"t-1","inReplyTo":"$question","projectId":"p-1"},
			{"questionId":"$question","question":null}]}`, ""},
		{"builder", "ask_question", `{"question":"Which one?","options":["1","1"]}`, `{"success":false,"error":"invalid_params","message":"*"}`, ""},
		{"builder", "send_alert", `{
			"message": "Deploy to staging complete. 3 services updated. Zero errors.",
			"alertType": "success"}`, `{"success":true,"alertId":"$alert","devices":1}`, ""},
		{"phone", "read $alert", "", `{"message":"Deploy to staging complete. 3 services updated. Zero errors.","alertType":"success","from":"builder"}`, ""},
	},
}

// teamExample is document 001, with the IDs of real requests in place of abc-123.
var teamExample = example{
	vocabulary: "team", setup: []string{"agent add team-lead", "agent add researcher --plan-mode", "agent add tester"},
	steps: []step{
		{"team-lead", "SendMessage", `{
			"to": "researcher",
			"message": "Start working on task #1",
			"summary": "Assign task #1 to researcher"}`, `{"success":true,"message_id":"$task","from":"team-lead","to":"researcher","message_type":"message",
			"summary":"Assign task #1 to researcher","recipients":null,"messages":[]}`, ""},
		{"team-lead", "SendMessage", `{
			"to": "*",
			"message": "Critical blocking issue found — stop all work",
			"summary": "Critical blocking issue found"}`, `{"success":true,"multicast_id":"$all","recipients":["researcher","tester"]}`, ""},
		{"researcher", "team_messages", `{}`, `{"agent":"researcher","count":2,"messages":[
			{"id":"$task","from":"team-lead","message":"Start working on task #1","summary":"Assign task #1 to researcher","type":"message","timestamp":"*"},
			{"id":"*","from":"team-lead","message":"Critical blocking issue found — stop all work","multicast_id":"$all","multicast_target":"*"}]}`, ""},
		{"team-lead", "SendMessage", `{
			"to": "researcher",
			"message": {
			"type": "shutdown_request",
			"reason": "Task complete, wrapping up the session"}}`, `{"success":true,"request_id":"$first","message_type":"shutdown_request"}`, ""},
		{"researcher", "team_members", `{}`, `{"members":[{"name":"team-lead","lead":true},{"name":"researcher"},{"name":"tester"},{"name":"operator"},{"name":"user"}],
			"messages":[{"type":"shutdown_request","message":{"type":"shutdown_request","requestId":"$first","reason":"Task complete, wrapping up the session"}}]}`, ""},
		{"researcher", "SendMessage", `{
			"to": "team-lead",
			"message": {
			"type": "shutdown_response",
			"request_id": "$first",
			"approve": false,
			"reason": "Still working on task #3, need 5 more minutes"}}`, `{"success":true,"request_id":"$first","presence":"working"}`, ""},
		{"researcher", "SendMessage", `{"to":"team-lead","message":{"type":"plan_approval_request","plan":"Call the API"}}`,
			`{"success":true,"request_id":"$plan"}`, ""},
		{"team-lead", "SendMessage", `{
			"to": "researcher",
			"message": {
			"type": "plan_approval_response",
			"request_id": "$plan",
			"approve": false,
			"feedback": "Please add error handling for the API calls"}}`, `{"success":true,"messages":[
			{"message":{"type":"shutdown_response","request_id":"$first","approve":false,"reason":"Still working on task #3, need 5 more minutes"}},
			{"message":{"type":"plan_approval_request","requestId":"$plan","plan":"Call the API"}}]}`, ""},
		{"researcher", "SendMessage", `{"to":"team-lead","message":{"type":"plan_approval_request","plan":"Call the API, handle errors"}}`,
			`{"request_id":"$better","messages":[{"message":{"type":"plan_approval_response","request_id":"$plan","approve":false,
			"feedback":"Please add error handling for the API calls"}}]}`, ""},
		{"team-lead", "SendMessage", `{
			"to": "researcher",
			"message": {
			"type": "plan_approval_response",
			"request_id": "$better",
			"approve": true}}`, `{"success":true,"messages":[{"message":{"type":"plan_approval_request","requestId":"$better"}}]}`, ""},
		{"researcher", "team_messages", `{}`, `{"messages":[{"message":{"type":"plan_approval_response","request_id":"$better","approve":true}}]}`, ""},
		{"team-lead", "SendMessage", `{"to":"researcher","message":{"type":"shutdown_request"}}`, `{"request_id":"$last"}`, ""},
		{"researcher", "SendMessage", `{
			"to": "team-lead",
			"message": {
			"type": "shutdown_response",
			"request_id": "$last",
			"approve": true}}`, `{"success":true,"presence":"stopped","messages":[{"message":{"type":"shutdown_request","requestId":"$last"}}]}`, ""},
		{"team-lead", "team_messages", `{}`, `{"messages":[{"message":{"type":"shutdown_response","request_id":"$last","approve":true}}]}`, ""},
		{"tester", "SendMessage", `{"to":"*","message":{"type":"shutdown_request"}}`, `{"error":"invalid_params","message":"*"}`, ""},
		{"tester", "SendMessage", `{"to":"team-lead","message":{"type":"shutdown_response","request_id":"$last","approve":true}}`, `{"error":"*","message":"*","success":false}`, ""},
		{"tester", "team_idle", `{"reason":"no tasks"}`, `{"presence":"idle","lead":"team-lead","notified":true,
			"messages":[{"message":"Critical blocking issue found — stop all work"}]}`, ""},
	},
}

// coralExample is document 003.
var coralExample = example{
	vocabulary: "coral",
	steps: []step{
		{"report-writer", "register_agent", `{"agentId":"report-writer","agentName":"Report Writer"}`, `{"success":true,"agentId":"report-writer"}`,
			"Agent registered successfully:\nID: report-writer\nName: Report Writer\nSession: default"},
		{"data-analyzer", "register_agent", `{"agentName":"Data Analyzer","description":"Knows the figures"}`, `{"agentId":"data-analyzer"}`,
			"Agent registered successfully:\nID: data-analyzer\nName: Data Analyzer\nDescription: Knows the figures\nSession: default"},
		{"report-writer", "list_agents", `{}`, `{"count":4,"agents":[{"agentId":"report-writer","registered":true},{"agentId":"data-analyzer","agentName":"Data Analyzer"},{"agentId":"operator"},{"agentId":"user"}]}`,
			"2 agents:\nID: report-writer, Name: Report Writer\nID: data-analyzer, Name: Data Analyzer\nBuilt-in recipients, not agents:\n" +
				"ID: operator, Name: operator, Description: the person who runs commands in a shell on this machine\nID: user, Name: user, Description: the person who runs the agents and answers on a phone"},
		{"report-writer", "create_thread", `{"threadName":"Data Source Discussion","creatorId":"report-writer","participantIds":["data-analyzer"]}`,
			`{"success":true,"threadId":"$thread","participants":["report-writer","data-analyzer"],"status":"open"}`,
			"Thread created successfully:\nID: $thread\nName: Data Source Discussion\nCreator: report-writer\nParticipants: report-writer, data-analyzer\nStatus: open"},
		{"report-writer", "send_message", `{
			"threadId": "$thread",
			"senderId": "report-writer",
			"content": "What were the final Q4 sales figures?",
			"mentions": ["data-analyzer"]}`, `{"success":true,"id":"$post","threadId":"$thread","senderId":"report-writer",
			"content":"What were the final Q4 sales figures?","timestamp":"$at","mentions":["data-analyzer"]}`,
			"Message sent successfully:\nID: $post\nThread: $thread\nSender: report-writer\nContent: What were the final Q4 sales figures?\nMentions: data-analyzer"},
		{"data-analyzer", "wait_for_mentions", `{
			"agentId": "data-analyzer",
			"timeoutMs": 60000}`, `{"agentId":"data-analyzer","count":1,"timed_out":false,"threads":[{"id":"$thread","name":"Data Source Discussion","status":"open",
			"messages":[{"id":"$post","timestamp":"$at","sender":{"id":"report-writer","name":"Report Writer"},
			"mentions":[{"id":"data-analyzer","name":"Data Analyzer"}],"content":"What were the final Q4 sales figures?","message_id":"$copy"}]}]}`,
			`<messages>
			  <thread id="$thread" name="Data Source Discussion">
			    <status>open</status>
			    <participants>
			      <participant id="report-writer" name="Report Writer" />
			      <participant id="data-analyzer" name="Data Analyzer" />
			    </participants>
			    <messages>
			      <message id="$post" timestamp="$at">
			        <sender id="report-writer" name="Report Writer" />
			        <mentions>
			          <mention id="data-analyzer" name="Data Analyzer" />
			        </mentions>
			        <content>What were the final Q4 sales figures?</content>
			        <message_id>$copy</message_id>
			        <message_type>message</message_type>
			      </message>
			    </messages>
			  </thread>
			</messages>`},
		{"data-analyzer", "wait_for_mentions", `{"timeoutMs":0}`, `{"count":0,"timed_out":true,"threads":[]}`,
			"No new messages arrived for data-analyzer within the timeout of 0s."},
		{"data-analyzer", "send_message", `{"threadId":"$thread","content":"</content> & <more>","mentions":["report-writer","nobody"]}`,
			`{"id":"$reply","timestamp":"$then","mentions":["report-writer"],"ignored_mentions":["nobody"]}`, "*"},
		{"report-writer", "wait_for_mentions", `{"format":"json"}`, `{"threads":[{"messages":[{"id":"$reply","content":"</content> & <more>"}]}]}`, "*"},
		{"report-writer", "add_participant", `{"threadId":"$thread","participantId":"data-analyzer"}`, `{"participants":["report-writer","data-analyzer"]}`, "*"},
		{"report-writer", "remove_participant", `{"threadId":"$thread","participantId":"data-analyzer"}`, `{"participants":["report-writer"]}`, "*"},
		{"data-analyzer", "send_message", `{"threadId":"$thread","content":"Too late"}`, `{"success":false,"error":"not_found","message":"*"}`, ""},
		{"report-writer", "close_thread", `{"threadId":"$thread","summary":"Figures found"}`, `{"status":"closed","summary":"Figures found"}`, "*"},
		{"report-writer", "send_message", `{"threadId":"$thread","content":"One more"}`, `{"success":false,"error":"conflict","message":"*"}`, ""},
		{"data-analyzer", "send_message", `{"threadId":"$thread","senderId":"report-writer","content":"I am another"}`, `{"error":"permission_denied","message":"*"}`, ""},
	},
}

// TestExamples runs the examples of the documents with the client of the Go SDK, over every transport, with the
// vocabulary alone under the document's own names and beside all others.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		for way, dialOf := range transportsOf {
			for beside, vocabulary := range map[string]string{"alone": e.vocabulary, "beside the others": ""} {
				t.Run(e.vocabulary+" "+way+" "+beside, func(t *testing.T) {
					if (way == "http") == (vocabulary != "") {
						helper.Long(t) // every transport and every offer is used once in the short form
					}
					t.Parallel()
					o := newOffice(t)
					o.run("setting", "set", "bounce", "on") // creates the database, without agents
					for _, line := range e.setup {
						o.run(strings.Fields(line)...)
					}
					if e.phone {
						o.run("signal", "device", "approve", o.paired("phone")["fingerprint"])
					}
					e.converse(t, o, dialOf(o), vocabulary)
				})
			}
		}
	}
}

// converse runs an example, each agent with a separate client.
func (e *example) converse(t *testing.T, o *office, dialTo dial, vocabulary string) {
	t.Helper()
	clients, seen := map[string]*client{}, known{}
	for _, s := range e.steps {
		if e.phone && s.as == "phone" {
			said := o.phone(append([]string{"phone"}, strings.Fields(seen.fill(s.tool))...)...)
			if s.want != "" {
				if err := seen.match(s.tool, decoded(t, said), decoded(t, s.want)); err != nil {
					t.Error(err)
				}
			}
			continue
		}
		c := clients[s.as]
		if c == nil {
			c = newClient(t, dialTo(s.as, vocabulary, s.as == e.admins))
			clients[s.as] = c
		}
		tool := s.tool
		if vocabulary == "" && (e.vocabulary == "coral" || e.vocabulary == "ralph") {
			tool = e.vocabulary + "_" + tool
		}
		want := decoded(t, s.want)
		// Wait until the previous step's messages are read.
		o.await(`SELECT count(*) FROM reading_lease WHERE ends = 'answer'`, "0")
		answer, text, failed := c.call(t, tool, seen.fill(s.args))
		if _, refused := want.(map[string]any)["error"]; failed != refused {
			t.Fatalf("%s: %s %s: %s", s.as, tool, s.args, text)
		}
		if err := seen.match(tool, answer, want); err != nil {
			t.Errorf("%s: %s %s:\n%v", s.as, tool, s.args, err)
		}
		switch wanted := seen.fill(s.text); {
		case wanted == "*":
		case wanted != "":
			if !same(t, text, wanted) {
				t.Errorf("%s: %s says\n%s\nwant\n%s", s.as, tool, text, wanted)
			}
		default:
			if err := seen.match(tool+" as text", decoded(t, text), want); err != nil {
				t.Error(err)
			}
		}
	}
}
