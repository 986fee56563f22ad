package main

import (
	"strings"
	"testing"
)

// toolCalls are calls of every tool, in an order in which each succeeds, with arguments in the form of the protocol's
// inspector. $name is the value under that key in an earlier answer.
var toolCalls = []struct{ tool, args string }{
	{"commands", ""},
	{"doctor", ""},
	{"status", ""},
	{"messages_list", `limit=5`},
	{"agent_add", `name=builder role=writes`},
	{"agent_add", `name=spare`},
	{"agent_list", ""},
	{"agent_show", `name=builder`},
	{"agent_token", `name=builder`},
	{"agent_disable", `name=spare why=later`},
	{"agent_enable", `name=spare`},
	{"hold", `agent=spare other=builder off=true`},
	{"agent_remove", `name=spare`},
	{"group_set", `name=builders members=["builder"]`},
	{"group_add", `name=council members=["builder"]`},
	{"group_remove", `name=council members=["builder"]`},
	{"group_set", `name=passing`},
	{"group_delete", `name=passing`},
	{"group_list", ""},
	{"setting_list", ""},
	{"setting_set", `key=bounce value=off`},
	{"setting_get", `key=bounce`},
	{"schedule_list", ""},
	{"schedule_run", `name=checkpoint`},
	{"schedule_remove", `name=deliver_all`},
	{"send", `sender=boss recipient=tomorrow message_type=note payload={"n":1} hold_unknown=true`}, // never delivered
	{"poll", `recipient=tomorrow`},
	{"trace", `message_id=$message_id`},
	{"why", `message_id=$message_id`},
	{"cancel", `message_id=$message_id`},
	{"send", `sender=boss recipient=boss message_type=note payload={"n":2}`},
	{"deliver_all", ""},
	{"wait", `recipient=boss timeout=0 lease=600`},
	{"get_message", `message_id=$message_id`},
	{"release", `message_id=$message_id`},
	{"acknowledge", `message_id=$message_id`},
	{"reply", `message_id=$message_id payload="done" sender=boss`},
	{"route-inter-agent-messages", `ACTION=poll RECIPIENT=builder BATCH_SIZE=10`},
	{"send_message", `source=boss target=boss message_type=STATUS message=Hello`},
	{"get_messages", `sessionId=boss`},
	{"get_sent_messages", ""},
	{"list_groups", ""},
	{"get_dead_letters", `limit=5`},
	{"query_message_history", `source=boss`},
	{"dead_letters_list", ""},
	{"dead_letters_groups", ""},
	{"dead_letters_replay", `all=true`},
	{"SendMessage", `to=builder message=Hello`},
	{"team_messages", ""},
	{"team_members", ""},
	{"team_idle", ""},
	{"coral_register_agent", `agentName=Boss`},
	{"coral_list_agents", ""},
	{"coral_create_thread", `threadName=x`},
	{"coral_add_participant", `threadId=$threadId participantId=builder`},
	{"coral_send_message", `threadId=$threadId content=Hello mentions=["builder"]`},
	{"coral_wait_for_mentions", `timeoutMs=0`},
	{"search_messages", `text=hello`},
	{"list_unread", ""},
	{"list_threads", ""},
	{"read_thread", `thread_id=$threadId`},
	{"rename_thread", `thread_id=$threadId name=y`},
	{"coral_remove_participant", `threadId=$threadId participantId=builder`},
	{"coral_close_thread", `threadId=$threadId summary=done`},
	{"ralph_send", `to=boss type=status_update payload={"agent":"boss","status":"working"}`},
	{"ralph_inbox", ""},
	{"ralph_ack", `id=$id`},
	{"signal_device_list", ""},
	{"ask_question", `question=Proceed? options=["Yes","No"] priority=high`},
	{"get_response", `questionId=$questionId`},
	{"signal_list", ""},
	{"signal_cancel", `questionId=$questionId`},
	{"send_alert", `message=Done alertType=success`},
	{"signal_doctor", ""},
	{"signal_device_revoke", `id=$device`},
	{"signal_ntfy", `url=https://ntfy.sh/topic`}, // nothing is asked while the topic is there
	{"signal_ntfy", `remove=true`},
	{"sql", `query=SELECT\u00201`},
	{"checkpoint", ""},
	{"recount", ""},
	{"stats", ""},
	{"now", ""},
	{"room", ""},
	{"clear_old", ""},
	{"clear_traces", ""},
}

// callAll calls every tool that is offered; each must succeed.
func callAll(t *testing.T, o *office, offered []string,
	call func(tool string, args []string) (result map[string]any, text string)) {
	t.Helper()
	left := map[string]bool{}
	for _, name := range offered {
		left[name] = true
	}
	kept := o.paired("pixel")
	// There is no tool for this, because an agent could approve its own phone.
	o.run("signal", "device", "approve", kept["fingerprint"])
	kept["FOLDER"] = o.folder
	for _, c := range toolCalls {
		delete(left, c.tool)
		args := strings.Fields(kept.fill(c.args))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], `\u0020`, " ")
		}
		t.Log(c.tool) // shows the progress, since each call of a third-party client starts a program
		result, text := call(c.tool, args)
		// Records written after an answer would be attributed to the next call.
		o.await(`SELECT count(*) FROM reading_lease WHERE ends = 'answer'`, "0")
		if result["success"] != true {
			t.Errorf("%s %s: %s", c.tool, c.args, text)
		}
		for key, value := range result {
			if text, ok := value.(string); ok &&
				(key == "message_id" || key == "threadId" || key == "id" || key == "questionId") {
				kept[key] = text
			}
		}
	}
	for name := range left {
		t.Errorf("%s is offered and was not called", name)
	}
}

// TestEveryTool checks that the arguments and answers of each tool conform to the schemas with which it is offered.
func TestEveryTool(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "boss")
	c := newClient(t, inMemory(o)("boss", "", true))
	var offered []string
	for name := range c.input {
		offered = append(offered, name)
	}
	callAll(t, o, offered, func(tool string, args []string) (map[string]any, string) {
		answer, text, _ := c.call(t, tool, toolParams(t, args))
		result, _ := answer.(map[string]any)
		return result, text
	})
}
