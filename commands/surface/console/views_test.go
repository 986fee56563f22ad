package console_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/surface/phone/browsertest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/helper"
)

var screenshots = flag.String("screenshots", "", "take pictures of all views into this `folder`")

// views are the paths of all views.
var views = []string{"/", "/messages", "/threads", "/agents", "/questions", "/operations", "/audit"}

// does runs a command as on the machine's own command line, and decodes the result.
func (r *room) does(name string, params string) (answer map[string]any) {
	r.t.Helper()
	d, err := r.Env.Catalogue.Lookup(name)
	if err != nil {
		r.t.Fatal(err)
	}
	env := r.Env
	env.Caller = commands.Caller{Admin: true, Shell: true, Session: orchestrator.DefaultSession}
	got, err := d.Run(r.t.Context(), env, []byte(params))
	if err != nil {
		r.t.Fatalf("%s %s: %v", name, params, err)
	}
	text, err := orchestrator.JSON(got)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// workday fills the room with the traces of a day with agents: messages that arrived and that did not, a thread, a
// schedule, and an agent that reads nothing. It returns the ID of a failed message.
func (r *room) workday() (failed string) {
	r.t.Helper()
	for _, name := range []string{"architect", "code_developer", "reviewer", "tester", "release-bot"} {
		r.does("agent_add", fmt.Sprintf(`{"name":%q,"role":"%s of the shop"}`, name, name))
	}
	gone := filepath.Join(r.t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		r.t.Fatal(err)
	}
	file := "jsonl:" + filepath.Join(gone, "builder.jsonl")
	if _, _, err := agents.Add(r.t.Context(), r.Router.Ledger,
		agents.Update{Name: "builder", Deliver: &file}); err != nil {
		r.t.Fatal(err)
	}
	if err := os.RemoveAll(gone); err != nil {
		r.t.Fatal(err)
	}
	for i := range 12 {
		r.does("send", fmt.Sprintf(`{"sender":"architect","recipient":"code_developer","message_type":"spec_ready","payload":{"spec_id":"SPEC-%03d"}}`, i))
		r.does("send", fmt.Sprintf(`{"sender":"code_developer","recipient":"reviewer","message_type":"review_request","payload":{"branch":"fix/%d"}}`, i))
	}
	failed = r.does("send",
		`{"sender":"architect","recipient":"builder","message_type":"task_assignment","payload":{"task":"Build branch fix/token-signing"},"max_retries":0}`)["message_id"].(string)
	r.does("send", `{"sender":"code_developer","recipient":"builder","message_type":"task_assignment","payload":{"task":"Build main"}}`)
	r.does("deliver_all", `{}`)
	thread := r.does("coral_create_thread",
		`{"threadName":"Release 2.4","participantIds":["architect","tester"]}`)["threadId"]
	r.does("coral_send_message",
		fmt.Sprintf(`{"threadId":%q,"content":"Is the changelog complete?","mentions":["architect"]}`, thread))
	r.does("schedule_add", `{"name":"tidy","spec":"0 4 * * *","command":"clear_old"}`)
	r.does("deliver_all", `{}`)
	return failed
}

// accessible runs axe on a page.
func (d *desk) accessible(t *testing.T, what string) {
	t.Helper()
	axe, err := os.ReadFile(filepath.Join("..", "phone", "app", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI has to install axe (make clients): %v", err)
		}
		t.Skip("NOT TESTED: npm did not install axe (make clients)")
	}
	var found []string
	d.Eval("(() => {"+string(axe)+"\n})()", nil)
	d.Eval(`axe.run(document).then(({ violations }) => violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`, &found)
	if len(found) > 0 {
		t.Errorf("%s: %s", what, strings.Join(found, "\n"))
	}
}

// holdsColumns checks that no text of a table cell is cut or overlaps the next cell, except in cells that may be cut,
// and that words in plots fit.
func (d *desk) holdsColumns(t *testing.T, what string) {
	t.Helper()
	var cut []string
	d.Eval(`[...document.querySelectorAll("main :is(td, th):not(.cut, [colspan])")].filter((e) => e.checkVisibility({ visibilityProperty: true }) && e.scrollWidth > e.clientWidth + 1).map((e) => e.className + ": " + e.innerText)`, &cut)
	if len(cut) > 0 {
		t.Errorf("in %s there is no room for %q", what, cut)
	}
	d.Eval(`[...document.querySelectorAll(".plot svg.field > text, .ax, .key, .wf .note")].filter((e) => e.checkVisibility() && (e.getBoundingClientRect().right > document.documentElement.clientWidth || e.getBoundingClientRect().height > 32)).map((e) => e.textContent)`, &cut)
	if len(cut) > 0 {
		t.Errorf("in %s is outside of the window, or broken into lines: %q", what, cut)
	}
	d.Eval(`[...document.querySelectorAll(".stream td.c-says, .tries .out")].filter((e) => e.clientWidth < 100).map((e) => e.textContent)`, &cut)
	if len(cut) > 0 {
		t.Errorf("in %s there is hardly room for %q", what, cut)
	}
}

// TestViews opens each view of a room after a day's work, and of an empty one, in light and dark, wide and narrow. It
// checks that nothing is wider than its window, and that axe finds nothing.
func TestViews(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	failed := r.workday()
	all := append([]string{"/messages/" + failed, "/agents/builder", "/operations/dead-letters",
		"/operations/settings"}, views...)
	for _, width := range []int64{1440, 720, 360} {
		for _, dark := range []bool{false, true} {
			if (testing.Short() || width == 720) && dark != (width == 360) {
				continue
			}
			d := r.opens(width, dark, "/")
			for _, path := range all {
				d.Eval(fmt.Sprintf(`(history.pushState(null, "", %q), dispatchEvent(new PopStateEvent("popstate")))`,
					path), nil)
				d.Until(`document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
				what := fmt.Sprintf("%s at %d px, dark %t", path, width, dark)
				if n := d.tooWide(); n > 0 {
					t.Errorf("%s is %d pixels too wide", what, n)
				}
				if width == 720 {
					d.holdsColumns(t, path)
				} else {
					d.accessible(t, what)
				}
				if *screenshots != "" {
					theme := map[bool]string{false: "light", true: "dark"}[dark]
					name := strings.Trim(strings.ReplaceAll(strings.Replace(path, failed, "failed", 1), "/", "-"), "-")
					d.Picture(filepath.Join(*screenshots,
						fmt.Sprintf("%s-%d-%s.png", cmp.Or(name, "now"), width, theme)), true)
				}
			}
		}
	}
}

// TestFirefox logs in and opens each view with Firefox.
func TestFirefox(t *testing.T) {
	helper.Long(t)
	if testing.Short() {
		t.Skip("`make test-long` drives Firefox")
	}
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.FirefoxPrograms...)
	r := serveRoom(t, "ann")
	failed := r.workday()
	firefox := browsertest.StartFirefox(ctx, t, browsertest.NewDesktop(ctx, t), browsertest.NewPushService(ctx, t))
	page := firefox.NewPage()
	code, err := agents.IssueCode(t.Context(), r.Router.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	page.Open(r.Address + "/#code=" + code)
	page.Until(`document.querySelector(".live[title]")`)
	for _, path := range append(views, "/messages/"+failed) {
		page.Open(r.Address + path)
		page.Until(`document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
	}
	id := r.does("send",
		`{"sender":"architect","recipient":"tester","message_type":"live_arrival"}`)["message_id"].(string)
	page.Open(r.Address + "/messages/" + id)
	page.Reads("live_arrival")
}
