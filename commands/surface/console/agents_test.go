package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// hostile is a text that agents may use as name or message: markup, the end of a script, an address that runs a
// script, and characters that reverse the direction of text.
const hostile = `<img src=x onerror="document.title='owned'"></script><b>bold</b> javascript:alert(1) ` +
	"\u202egnp.exe"

// as runs a command as an agent and returns the result.
func (r *room) as(agent, command string, params any) map[string]any {
	r.t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		r.t.Fatal(err)
	}
	status, answer := r.Run(r.Token(agent, agent == "boss"), command, string(text))
	result := map[string]any{}
	if err := json.Unmarshal([]byte(answer), &result); err != nil || status != 200 {
		r.t.Fatalf("%s %s as %s: %d %s", command, text, agent, status, answer)
	}
	return result
}

// add adds or changes an agent, as on the machine itself.
func (r *room) add(u agents.Update) ledger.Agent {
	r.t.Helper()
	a, _, err := agents.Add(r.t.Context(), r.Router.Ledger, u)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// looksRight opens a path in both themes, also at the width of a phone. The page must show a heading, need no
// horizontal scrolling, and show hostile texts as texts only.
func (r *room) looksRight(path, until string) {
	r.t.Helper()
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{360, 1440} {
			if testing.Short() && dark != (width == 360) {
				continue
			}
			d := r.opens(width, dark, path)
			d.Until(until)
			if n := d.tooWide(); n > 0 {
				r.t.Errorf("%s is %d pixels too wide for a window of %d", path, n, width)
			}
			var odd string
			if d.Eval(`[document.title === "owned" && "title", document.querySelector("main img, main script, main b b") && "markup"].filter(Boolean).join()`, &odd); odd != "" {
				r.t.Errorf("%s has made something of a hostile text: %s", path, odd)
			}
		}
	}
}

// TestAgentIsDisabledAndEnabled disables and enables an agent through the page. Its messages wait meanwhile, and then
// arrive.
func TestAgentIsDisabledAndEnabled(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "boss")
	file := filepath.Join(t.TempDir(), "bob.jsonl")
	r.add(agents.Update{Name: "bob", Role: new("writes code"), Deliver: new("jsonl:" + file)})
	d := r.opens(1440, false, "/agents")
	d.Click("bob")
	d.Until(`location.pathname === "/agents/bob" && document.querySelector("main h1")?.innerText === "bob"`)
	d.Reads("Writes code.")
	d.Reads("send bob Hello")
	d.Click("Disable…")
	d.Type("Why", "its disk is full")
	d.Click("Disable")
	d.Until(`document.querySelector("main h1").innerText === "bob is disabled"`)
	d.Reads("it was disabled by the operator, in the console: its disk is full")

	r.as("ann", "send", map[string]any{"recipient": "bob", "message_type": "note", "payload": "hello"})
	r.as("boss", "deliver_all", map[string]any{})
	if _, err := os.Stat(file); err == nil {
		t.Error("a disabled agent got a message")
	}
	d.Reads("1 message waits.")
	d.Open(r.Address + "/agents/bob")
	// the doctor finds that bob is disabled
	d.Until(`performance.getEntriesByType("resource").some((e) => e.name.endsWith("/doctor") && e.responseEnd > 0)`)
	d.Click("Enable…")
	d.Click("Enable")
	d.Until(`document.querySelector("main h1").innerText === "bob"`)
	r.as("boss", "deliver_all", map[string]any{})
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "hello") {
		t.Errorf("the agent got %q, %v", text, err)
	}
	// ann writes to bob.
	d.Until(`[...document.querySelectorAll("main table")].some(t => t.innerText.includes("ann"))`)
	d.Key("Escape")
	d.Until(`location.pathname === "/agents"`)
	d.visits("/") // no longer shows the doctor's earlier findings
	d.Until(`document.querySelector("main h1 + p") && !document.querySelector(".needs")?.innerText.includes("bob is disabled")`)
	var needs string
	if d.Eval(`document.querySelector(".needs")?.innerText ?? ""`, &needs); strings.Contains(needs, "bob") {
		t.Errorf("bob is enabled, and needs a person all the same: %s", needs)
	}
}

// TestTokenIsRevoked revokes a token through the page, after which the token is refused.
func TestTokenIsRevoked(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	token := r.Token("ann", false)
	d := r.opens(1440, false, "/agents/ann")
	d.Click("Revoke…")
	d.Reads("Revoke 1 token of ann?")
	d.Click("Revoke")
	d.Reads("The agent has no valid token")
	if status, answer := r.Run(token, "list_unread", `{}`); status != 401 {
		t.Errorf("the revoked token is answered with %d %s", status, answer)
	}
}

// TestAgentIsAddedAndChanged adds and changes an agent through the page, as far as the network permits. The page
// shows other changes as commands to run.
func TestAgentIsAddedAndChanged(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "boss")
	d := r.opens(1440, false, "/agents")
	d.Click("Add an agent")
	d.Type("Name", "carol")
	d.Type("Role", "tests")
	d.Click("a command or a file on the machine")
	d.Reads("mailroom agent add carol --deliver exec:COMMAND")
	d.Click("its inbox")
	d.Click("Add")
	d.Until(`location.pathname === "/agents/carol" && document.querySelector("main h1")?.innerText === "carol"`)
	d.Click("Change…")
	d.Type("Role", " what others write")
	d.Type("Minutes of silence before the agent counts as lost", "10")
	d.Click("Change")
	d.Reads("Tests what others write.")
	d.Reads("lost after 10 min")
	d.Click("Change…")
	d.Type("Minutes of silence before the agent counts as lost", "e") // neither a number nor empty
	d.Click("Change")
	d.Until(`document.querySelector("dialog input:invalid")`)
	d.Click("Go back")
	d.Until(`!document.querySelector("dialog")`)
	d.Click("Change…")
	d.Click("a webhook")
	d.Type("Address", "ftp://nowhere")
	d.Click("Change")
	d.Until(`document.querySelector("dialog [role=alert]")`)
	d.Click("Go back")
	if a, err := agents.Get(t.Context(), r.Router.Ledger, "carol"); err != nil || a.Deliver != "inbox" ||
		a.SilentAfter != 600 || a.Role != "tests what others write" {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestPresenceOverTime checks that the page of an agent shows its presence: the hours in which it sent or read a
// message, and the sessions of its host.
func TestPresenceOverTime(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	r.send("bob", "ann", "note", `1`)
	now := time.Now()
	hour := func(ago time.Duration) string {
		return orchestrator.Stamp(now.Add(-ago * time.Hour).Truncate(time.Hour))
	}
	r.sql(`INSERT INTO traffic (span, at, recipient, wrote, read) VALUES ('hour', ?1, 'bob', 3, 0),
		('hour', ?2, 'bob', 0, 2), ('hour', ?3, 'ann', 9, 9)`, hour(5), hour(1), hour(3))
	r.sql(`INSERT INTO host_sessions (agent, session, program, state, started_at, seen_at)
		VALUES ('bob', 's', 'codex', 'idle', ?1, ?2)`, hour(2), orchestrator.Stamp(now))
	d := r.opens(1440, false, "/agents/bob")
	d.Reads("active in 3 of 24 hours sent 4 · read 2 · longest silence 3 h, until ")
	d.Until(`document.querySelectorAll(".there rect.c-strong").length === 3 && document.querySelectorAll(".there rect.c-ok").length === 1`)
	d.Click("hour")
	d.Reads("active in 1 of 12 intervals of 5 min sent 1")
}

// TestAgentsInTheirStates checks that names of agents are shown as texts, and that the page helps users without
// rights, and on unknown agents.
func TestAgentsInTheirStates(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "boss")
	r.add(agents.Update{Name: "evil", Role: new(strings.ReplaceAll(hostile, "\u202e", ""))})
	r.as("evil", "coral_register_agent",
		map[string]any{"agentId": "evil", "agentName": "E v i l", "description": hostile})
	r.as("evil", "send", map[string]any{"recipient": "ann", "message_type": "note<i>", "payload": hostile})
	r.as("boss", "deliver_all", map[string]any{})
	if _, _, err := agents.Disable(t.Context(), r.Router.Ledger,
		agents.Disabling{Agent: "evil", Why: `<b>why</b>`}); err != nil {
		t.Fatal(err)
	}
	r.looksRight("/agents", `document.querySelectorAll("main tbody tr").length === 5`)
	r.looksRight("/agents/evil",
		`document.querySelector("main h1")?.innerText === "evil is disabled" && document.querySelectorAll("main table").length > 0`)
	d := r.opens(1440, false, "/agents/anne")
	d.Reads("There is no agent anne")
	d.Reads("Did you mean ann")
	s := r.browser.NewScreen(1440, 900, false)
	s.Open(r.Address + "/agents/ann")
	s.Type("Token", r.Token("ann", false))
	s.Click("Log in")
	s.Reads("only an administrator can change agents")
	s.Until(`document.querySelector("main .three [role=alert]")`) // the tokens
	s.Reads("only administrators can run agent_token")
	s.Reads("Mailroom has not heard from it yet")
}

// TestManyAgents checks that the list of thousands of agents, with pages and a search, is as quick as that of ten.
func TestManyAgents(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	l := r.Router.Ledger
	err := l.Write(t.Context(), store.Alone, func(t *ledger.Tx) error {
		for i := range 10_000 {
			a := ledger.Agent{Name: fmt.Sprintf("agent-%05d", i), Role: "one of many", Deliver: "inbox",
				CreatedAt: t.Now, UpdatedAt: t.Now}
			if err := agents.Store(t, &a); err != nil {
				return err
			}
		}
		return t.ConfigChanged()
	})
	if err != nil {
		t.Fatal(err)
	}
	d := r.opens(1440, false, "/agents")
	d.Reads("10,000 agents")
	d.Reads("1 to 100 of 10,002")
	if _, _, err := agents.Disable(t.Context(), l,
		agents.Disabling{Agent: "agent-00500", Why: "its disk is full"}); err != nil {
		t.Fatal(err)
	}
	d.Reads("One of these 100 agents needs attention")
	d.Click("Next")
	d.Reads("101 to 200 of 10,002")
	d.Type("Find a name, a role, or a host", "agent-09999")
	d.Until(`document.querySelectorAll("main tbody tr").length === 1`)
	d.Reads("One agent with “agent-09999”")
	d.Key("Escape", "j", "Enter")
	d.Until(`location.pathname === "/agents/agent-09999"`)
}
