//go:build hosts

package main

import (
	"net/http"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestOpenCodeAborted checks that if the user ends a turn in which a message arrived, the message stays in the
// session, and is read after the model's next answer.
func TestOpenCodeAborted(t *testing.T) {
	t.Parallel()
	k := openCodeDesk(t)
	o := k.idleOpenCode()
	id := k.send("Look at the build.")
	o.asks().shows(id)
	o.asked(http.MethodPost, "/session/"+o.id+"/abort", map[string]any{})
	k.stand("shown")
	o.prompts("Go on.")
	o.reads(id)
}

// TestOpenCodeSubagent checks that a message goes to the session of the user, and not to that of a subagent.
func TestOpenCodeSubagent(t *testing.T) {
	t.Parallel()
	k := openCodeDesk(t)
	o := k.idleOpenCode()
	child := o.begins(map[string]any{"parentID": o.id})
	o.promptsIn(child, "Find it.")
	inner := o.asks()
	o.reads(k.mail())
	inner.shows()
	inner.says("Found.")
}

// TestOpenCodesInOneFolder uses a folder that is connected for OpenCode as carol and for Kilo, which also reads
// OpenCode's files, as bob. It checks that each gets the mail and tools of its own agent.
func TestOpenCodesInOneFolder(t *testing.T) {
	t.Parallel()
	k := openCodesDesk(t, "kilo")
	other := *k
	other.host, other.program = "opencode", hostProgram(t, openCodes["opencode"].program)
	other.readies()
	k.run("agent", "add", "carol")
	other.connects("--as", "carol")
	k.connects("--as", "bob")
	for _, host := range []*desk{k, &other} {
		o := host.openCode()
		o.writesToAlice()
		if host == k {
			k.run("send", "--as", "alice", "carol", "For carol.")
			o.reads(k.mail())
			o.rests()
			want.Rows(t, k.rows(`SELECT count(*) FROM agent_message WHERE recipient = 'carol' AND read_at = ''`), "1")
		}
		o.kill()
	}
	want.Rows(t, k.rows(`SELECT sender FROM agent_message WHERE recipient = 'alice' ORDER BY seq`), "bob", "carol")
}
