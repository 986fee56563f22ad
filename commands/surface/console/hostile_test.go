package console_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// hostileNames are names that are addresses, paths, or property names of all JavaScript objects.
var hostileNames = []string{
	"https://evil.example/?a=b&c#d", "javascript:alert(1)", "//evil.example", "../../v1/commands", "a b/%2e%2e/%zz",
	"__proto__", "constructor", "toString",
	"<img src=x onerror=window.pwned=1>", "\u202egnp.exe", "'; DROP TABLE agents; --",
}

// hostileRoom returns a room in which every field that a view shows contains a text that would have an effect if it
// were not treated as text. Any program can write such texts into the tables.
func hostileRoom(t *testing.T) *room {
	r := newRoom(t, "ann", "bob")
	text := strings.Join(hostileTexts[:8], " ")
	now := orchestrator.Stamp(time.Now().Add(-20 * time.Minute))
	later := orchestrator.Stamp(time.Now().Add(time.Hour))
	payload, err := json.Marshal(map[string]any{"title": text, "__proto__": text,
		"constructor": map[string]any{"prototype": text}})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range hostileNames {
		for j, status := range []string{"pending", "retry", "failed", "expired", "delivered", "cancelled",
			"constructor"} {
			id := fmt.Sprintf("h-%d-%d", i, j)
			r.sql(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status,
				traced_status, created_at, ended_at, error_message, summary, context, next_attempt_at, lease_owner,
					trace_id)
				VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, CASE WHEN ?6 IN ('pending','retry') THEN '' ELSE ?7 END, ?4, ?4,
					?4, ?8, ?4, ?4)`, id, name, hostileNames[(i+1)%len(hostileNames)], text, string(payload), status,
				now, later)
			for _, event := range []string{"created", "claimed", "attempt_failed", status, "overdue", "replayed",
				text} {
				r.sql(`INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor,
					span_id, error, detail) VALUES (?1, ?2, ?3, ?4, ?4, 1, ?4, ?5, ?4, ?4)`, id, now, event, text, id)
			}
			r.sql(`INSERT INTO command_trace (trace_id, span_id, name, kind, started_at, ended_at, status,
				status_message, actor, caller, attributes) VALUES (?1, ?2, ?1, ?1, ?3, ?3, 'ERROR', ?1, ?1, ?1, ?4)`,
				text, id, now, string(payload))
		}
		r.sql(`INSERT INTO agents (name, role, deliver, fallback, start_command, registered_by, created_at, updated_at,
			folder, disabled, host) VALUES (?1, ?2, 'webhook:' || ?2, ?2, ?2, ?2, ?3, ?3, ?2, ?3 || ' ' || ?2, ?2)`,
			fmt.Sprint("hostile-", i), text, now)
		r.sql(`INSERT INTO schedules (name, spec, command, params, last_run_at, created_at)
			VALUES (?1, ?2, ?1, ?3, ?4, ?4)`, name, text, string(payload), now)
		r.sql(`INSERT INTO settings (key, value, updated_at) VALUES (?1, ?2, ?2)`, name, text)
		r.sql(`INSERT INTO signal_devices (device_id, name, kind, state, recipient, created_at, push_host, push_problem,
			push_outcome) VALUES (?1, ?2, ?2, 'active', ?2, ?3, ?2, ?2, ?2)`, name, text, now)
		r.sql(`INSERT INTO signal_questions (question_id, asker, encrypted, body, created_at, expires_at, answered_by)
			VALUES (?1, ?1, 0, ?2, ?3, ?4, ?1)`, name, hostileQuestion(t, text), now, later)
		r.sql(`INSERT INTO threads (thread_id, session_id, name, creator, summary, created_at)
			VALUES (?1, ?2, ?2, ?1, ?2, ?3)`, name, text, now)
		r.sql(`INSERT INTO thread_participants (thread_id, agent, joined_at) VALUES (?1, ?1, ?2)`, name, now)
	}
	r.sql(`UPDATE agents SET role = ?1, disabled = 'yesterday, since it was rude' WHERE name = 'bob'`, text)
	r.sql(`INSERT INTO agent_message (message_id, sender, recipient, status, traced_status, created_at, delivered_at,
		ended_at, read_at) VALUES ('odd', 'ann', 'bob', 'delivered', 'delivered', 'yesterday', 'now', 'never',
			'tomorrow')`)
	r.sql(`INSERT INTO message_trace (message_id, at, event) VALUES ('odd', 'yesterday', 'created'),
		('odd', 'never', 'delivered')`)
	r.sql(`INSERT INTO agent_runs (agent, state, started_at, instance, outcome, failures, host)
		VALUES ('bob', 'constructor', ?1, ?2, ?2, 3, ?2)`, now, text)
	r.sql(`INSERT INTO host_sessions (agent, session, program, state, host, started_at, seen_at)
		VALUES ('bob', ?2, ?2, ?2, ?2, ?1, ?1)`, now, text)
	r.sql(`INSERT INTO presence (session_id, agent, display_name, description, since, joined_at, seen_at)
		VALUES (?2, 'bob', ?2, ?2, ?1, ?1, ?1)`, now, text)
	r.sql(`INSERT INTO daemons (instance, host, pid, started_at, seen_at, listening) VALUES (?2, ?2, 7, ?1, ?3, ?2)`,
		now, text, orchestrator.Stamp(time.Now()))
	if err := r.Router.Ledger.Write(t.Context(), store.Alone,
		func(t *ledger.Tx) error { return t.ConfigChanged() }); err != nil {
		t.Fatal(err)
	}
	return r
}

// hostileQuestion returns the body of a question.
func hostileQuestion(t *testing.T, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"question": text, "options": []string{text, "constructor"},
		"context": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestHostileEverywhere checks that each view shows any content of the tables as text, within its window, and keeps
// working.
func TestHostileEverywhere(t *testing.T) {
	t.Parallel()
	r := hostileRoom(t)
	paths := []string{
		"/", "/?span=constructor&room=list", "/?span=__proto__", "/messages", "/messages/odd",
		"/messages?status=__proto__", "/messages?text=%3Cb%3E", "/threads", "/agents", "/agents/bob",
		"/agents/bob?since=constructor",
		"/questions", "/operations", "/operations/dead-letters", "/operations/dead-letters?by=error",
		"/operations/schedules", "/operations/settings", "/operations/database", "/operations/doctor",
		"/operations/constructor",
		"/audit", "/audit/sql", "/audit/constructor", "/audit/overdue", "/audit/dead_letters_by_reason", "/constructor",
		"/__proto__/x", "/agents/%E0%A4%A", "/messages/%ff", "/questions/x",
	}
	for i, name := range hostileNames {
		part := strings.NewReplacer("%", "%25", "/", "%2F", "?", "%3F", "#", "%23", " ", "%20").Replace(name)
		paths = append(paths, "/agents/"+part, "/threads/"+part, fmt.Sprintf("/messages/h-%d-%d", i, i%7),
			"/messages?from="+part)
	}
	for _, width := range []int64{360, 1440} {
		d := r.opens(width, width == 360, "/")
		for i, path := range paths {
			if testing.Short() && (i%2 == 0) != (width == 360) { // each path once
				continue
			}
			d.visits(path)
			harmless(t, d, fmt.Sprint(path, " at ", width))
		}
	}
}

// visits opens a path within the page and waits until the page shows the data that it requested.
func (d *desk) visits(path string) {
	d.Eval(fmt.Sprintf(`new Promise((shown) => {
		history.pushState(null, "", %q);
		dispatchEvent(new PopStateEvent("popstate"));
		requestAnimationFrame(() => requestAnimationFrame(() => shown(true)));
	})`, path), nil)
	d.Until(`document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
}

// TestHostileAddresses checks that names lead only to pages of the console, and that no word of a filter is lost.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	r := hostileRoom(t)
	d := r.opens(1440, false, "/")
	var foreign []string
	for _, path := range []string{"/", "/?room=list", "/messages", "/agents", "/threads", "/questions",
		"/operations/dead-letters", "/operations/database"} {
		d.visits(path)
		d.Eval(`[...document.querySelectorAll("a[href]")].map((a) => a.href.baseVal ?? a.href).filter((at) => at.startsWith("/") ? at.startsWith("//") : !at.startsWith(location.origin + "/"))`, &foreign)
		if len(foreign) > 0 {
			t.Errorf("%s leads to %q", path, foreign)
		}
	}
	d.visits("/messages")
	d.Type("Filter", "constructor:x __proto__:y from:ann")
	d.Key("Enter")
	d.Until(`location.search === "?from=ann&text=constructor%3Ax+__proto__%3Ay"`)
}

// TestDottedIDs checks that each message has its own path, even if its ID is a relative path segment.
func TestDottedIDs(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	ids := []string{".", "..", "~.", "~~..", "...", "~"}
	for _, id := range ids {
		r.sql(`INSERT INTO agent_message (message_id, sender, recipient, message_type, status, traced_status,
			created_at, ended_at) VALUES (?1, 'ann', 'bob', ?1, 'failed', 'failed', ?2, ?2)`, id,
			orchestrator.Stamp(time.Now()))
	}
	d := r.opens(1440, false, "/messages")
	for _, id := range ids {
		d.visits("/messages?type=" + url.QueryEscape(id))
		d.Until(`document.querySelectorAll(".stream tr.is-failed a").length > 0`)
		d.Eval(`document.querySelector(".stream tr.is-failed a.pair").click()`, nil)
		for range 2 {
			d.Until(fmt.Sprintf(`[...document.querySelectorAll(".cmd code")].some((code) => code.textContent === "mailroom trace %s")`, orchestrator.ShellWord(id)))
			var address string
			d.Eval(`location.href`, &address)
			d.Open(address)
		}
	}
}

// TestCopiedCommands checks that a shell treats an ID in a copied command as one word, whatever ID the sender has
// chosen.
func TestCopiedCommands(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	d := r.opens(1440, false, "/")
	for id, whole := range map[string]string{
		"$(touch pwned)`id`;'\\\"\nls": "", "\x03\nid\n\u202e": "", "--all": "mailroom trace -- --all",
	} {
		r.sql(`INSERT INTO agent_message (message_id, sender, recipient, status, traced_status, created_at, ended_at)
			VALUES (?1, 'ann', 'bob', 'failed', 'failed', ?2, ?2)`, id, orchestrator.Stamp(time.Now()))
		d.visits("/messages/" + url.PathEscape(id))
		d.Until(`[...document.querySelectorAll(".cmd code")].some((code) => code.textContent.startsWith("mailroom trace "))`)
		var command string
		d.Eval(`[...document.querySelectorAll(".cmd code")].find((code) => code.textContent.startsWith("mailroom trace ")).textContent`, &command)
		if whole != "" {
			if command != whole {
				t.Errorf("the command is %q; want %q", command, whole)
			}
			continue
		}
		shell := exec.CommandContext(t.Context(), "bash", "--norc", "-c",
			"printf %s "+strings.TrimPrefix(command, "mailroom trace "))
		shell.Env = []string{"LANG=C.UTF-8", "LC_ALL=C.UTF-8"}
		if word, err := shell.Output(); string(word) != id || err != nil {
			t.Errorf("of %q a shell makes %q, %v; want %q", command, word, err, id)
		}
		if strings.ContainsAny(command, "\x03\u202e") {
			t.Errorf("%q has what a terminal acts on", command)
		}
	}
}

// TestHostileMasses checks that texts of a megabyte, and ten thousand agents that write to each other, leave every
// view usable.
func TestHostileMasses(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	many, widths := 10_000, []int64{360, 1440}
	if testing.Short() {
		many, widths = 500, widths[1:]
	}
	big := strings.Repeat("W", 900_000) + strings.Repeat("<b>", 30_000)
	thread := r.as("ann", "coral_create_thread",
		map[string]any{"threadName": "big", "participantIds": []string{"bob"}})["threadId"].(string)
	r.as("ann", "coral_send_message", map[string]any{"threadId": thread, "content": big, "mentions": []string{"bob"}})
	now := orchestrator.Stamp(time.Now().Add(-10 * time.Minute))
	err := r.Router.Ledger.Write(t.Context(), store.Alone, func(t *ledger.Tx) error {
		for i := range many {
			a := ledger.Agent{Name: fmt.Sprintf("agent-%05d", i), Role: "one of many", Deliver: "inbox",
				CreatedAt: t.Now, UpdatedAt: t.Now}
			if err := agents.Store(t, &a); err != nil {
				return err
			}
			status := []string{"failed", "pending", "delivered"}[i%3]
			err := t.Run(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status,
				traced_status, created_at, ended_at, error_message)
				VALUES (?1, ?2, ?3, 'note', '"x"', ?4, ?4, ?5, CASE ?4 WHEN 'pending' THEN '' ELSE ?5 END, ?6)`,
				fmt.Sprint("m", i), a.Name, fmt.Sprintf("agent-%05d", (7*i)%many), status, now,
				fmt.Sprint("error ", i))
			if err != nil {
				return err
			}
		}
		return t.ConfigChanged()
	})
	if err != nil {
		t.Fatal(err)
	}
	r.sql(`UPDATE agent_message SET error_message = ?1 WHERE message_id IN ('m0', 'm3')`, big)
	wide := "1"
	for range 6 {
		wide = "[" + strings.Repeat(wide+",", 7) + wide + "]"
	}
	r.sql(`UPDATE agent_message SET payload = ?1 WHERE message_id = 'm1'`, wide)
	r.sql(`UPDATE agent_message SET payload = ?1 WHERE message_id = 'm2'`,
		strings.Repeat("[", 999)+strings.Repeat("1,", 450_000)+"1"+strings.Repeat("]", 999))
	for _, width := range widths {
		d := r.opens(width, false, "/")
		for _, path := range []string{
			"/", "/?room=list", "/messages", "/messages/m0", "/messages/m1", "/messages/m2", "/agents",
			"/agents/agent-00007", "/threads", "/threads/" + thread, "/operations", "/operations/dead-letters",
			"/operations/dead-letters?by=error",
			"/operations/database", "/operations/doctor", "/audit/dead_letters_by_reason",
		} {
			d.visits(path)
			harmless(t, d, fmt.Sprint(path, " at ", width))
			var nodes int
			if d.Eval(`document.querySelectorAll("main *").length`, &nodes); nodes > 20_000 {
				t.Errorf("%s has %d nodes", path, nodes)
			}
		}
	}
	d := r.opens(1440, false, "/messages/m2")
	const open = `document.querySelectorAll(".turn[aria-expanded=true]").length`
	d.Until(open + ` === 8`)
	d.Eval(`(document.querySelector(".turn[aria-expanded=false]").click(), null)`, nil)
	d.Until(open + ` === 16`)
	d.Click("as text")
	d.Until(`document.querySelector(".out.long")?.textContent.startsWith("[[[")`)
	d.Eval(`((asked) => (window.fetch = (path, o) => path.endsWith("/trace") ? Promise.resolve(Response.json({})) : asked(path, o), null))(fetch)`, nil)
	d.visits("/messages/m1")
	d.Reads("Cannot show this view") // an unexpected value breaks only the view
	d.Key("g", "a")
	d.Until(`document.querySelector(".roster")`)
	d.Key("/")
	last := fmt.Sprintf("agent-%05d", many-1)
	d.Type("What to find", last)
	d.Until(fmt.Sprintf(`document.querySelector(".palette [aria-selected=true] b")?.textContent === %q`, last))
}
