package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/store"
)

// oddText is a foreign text that a page must show unchanged: markup, characters that change the direction of text,
// and a formula.
const oddText = "=1+1 <img src=x onerror=alert(1)> \u202etxet\u202c </script> ${7*7} 'quoted' \"twice\" ;=2+2"

// givesUp creates a dead letter to an agent, with an error.
func (r *room) givesUp(sender, recipient, reason string) (id string) {
	r.t.Helper()
	sent, err := messages.Send(r.t.Context(), r.Router.Ledger,
		orchestrator.Draft{Sender: sender, Recipient: recipient, Type: "note", Payload: json.RawMessage(`{"n":1}`)})
	if err != nil {
		r.t.Fatal(err)
	}
	id = sent.MessageID
	r.by(`UPDATE agent_message SET status = 'failed', traced_status = 'failed', ended_at = ?1, error_message = ?2
		WHERE message_id = ?3`,
		orchestrator.Stamp(r.Router.Ledger.Now()), reason, id)
	return id
}

// by runs an SQL statement, as another program would.
func (r *room) by(statement string, args ...any) {
	r.t.Helper()
	enginetest.Miscounts(r.Router.Ledger.Path())
	db := enginetest.Plain(r.t, r.Router.Ledger.Path())
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		r.t.Fatal(err)
	}
}

// statuses returns the status of each message.
func (r *room) statuses(ids ...string) (list []orchestrator.Status) {
	r.t.Helper()
	for _, id := range ids {
		ms, err := messages.Find(r.t.Context(), r.Router.Ledger, id)
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, ms[0].Status)
	}
	return list
}

// pictured writes pictures of a desk if CONSOLE_PICTURES names a folder for them.
func (d *desk) pictured(name string) {
	if folder := os.Getenv("CONSOLE_PICTURES"); folder != "" {
		var asks bool // a dialog would move when the window grows for the picture
		d.Eval(`!!document.querySelector("dialog[open]")`, &asks)
		d.Picture(filepath.Join(folder, name+".png"), !asks)
	}
}

// TestReplayDeadLettersFromThePage replays dead letters by error, by recipient and individually, after the page has
// described the effect.
func TestReplayDeadLettersFromThePage(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "architect", "builder", "tester")
	locked := func(process int) string {
		return fmt.Sprintf("exit status 1: cannot lock .build/lock, held by process %d", process)
	}
	a, b := r.givesUp("architect", "builder", locked(4411)), r.givesUp("tester", "builder", locked(90210))
	other, mine := r.givesUp("architect", "builder", "exit status 2: no such file"),
		r.givesUp("builder", "tester", locked(5120))
	odd := r.givesUp("architect", "tester", oddText)

	d := r.opens(1440, false, "/operations/dead-letters")
	d.Reads("Five dead letters")
	d.Reads(oddText)
	d.pictured("dead-letters")
	d.Click("By error")
	d.Until(`location.search === "?by=error"`)
	d.Reads("held by process")
	d.pictured("dead-letters-by-error")
	d.Click("Replay 3…")
	d.Reads("This sends 3 messages to ")
	d.pictured("replay")
	d.Click("Replay 3")
	d.Reads("3 messages replayed.")
	if got := fmt.Sprint(r.statuses(a, b, mine, other, odd)); got != "[pending pending pending failed failed]" {
		t.Errorf("after a replay by error they are %s", got)
	}
	d.Click("By recipient")
	d.Reads("Two dead letters")
	d.Eval(`[...document.querySelectorAll(".row .btn")].find((b) => b.closest("section").querySelector("h2").innerText === "tester").click()`, nil)
	d.Reads("This sends 1 message to tester again.")
	d.Click("Go back")
	d.Until(`!document.querySelector("dialog")`)
	d.Click("Replay all…")
	d.Click("Replay 2")
	d.Reads("There are no dead letters")
	if got := fmt.Sprint(r.statuses(other, odd)); got != "[pending pending]" {
		t.Errorf("after a replay of all they are %s", got)
	}
	if done, err := r.Router.DeliverAll(t.Context(), delivery.Options{}); err != nil || done.Delivered != 5 {
		t.Errorf("delivered %d of what was sent again: %v", done.Delivered, err)
	}
}

// TestSettings changes a setting after the page has explained its meaning, and checks that the old value is offered.
// Settings of the machine are shown as commands.
func TestSettings(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	value := func() string {
		s, err := r.Router.Ledger.Setting(t.Context(), "retry.ladder")
		if err != nil {
			t.Fatal(err)
		}
		return s.Value
	}
	d := r.opens(1440, true, "/operations/settings")
	d.Reads("waiting times before the second, third, and later attempts")
	d.pictured("settings-dark")
	change := func(to string) {
		d.Eval(`document.querySelector("[aria-label='Change retry.ladder']").click()`, nil)
		d.Until(`document.querySelector("dialog input")`)
		d.Eval(fmt.Sprintf(`(() => { const i = document.querySelector("dialog input"); i.value = %q; i.dispatchEvent(new Event("input", { bubbles: true })) })()`, to), nil)
		d.Click("Change it")
	}
	change("soon")
	d.Reads(`"soon" is not a valid duration`)
	d.Click("Go back")
	d.Until(`!document.querySelector("dialog")`)
	change("5s,30s")
	d.Reads("Changed: ")
	if got := value(); got != "5s,30s" {
		t.Errorf("the setting is %s", got)
	}
	d.pictured("setting-changed-dark")
	d.Click("Undo")
	d.Until(`!document.querySelector(".said")`)
	if got := value(); got != "30s,60s,120s" {
		t.Errorf("after it was undone the setting is %s", got)
	}
	change("5s")
	d.Reads("Changed: ")
	r.does("setting_set", `{"key":"retry.ladder","value":"7s"}`)
	d.Click("Undo")
	d.Reads("Somebody has since set retry.ladder to 7s")
	if got := value(); got != "7s" {
		t.Errorf("Undo has made the setting %s, which somebody else has changed", got)
	}
	d.Reads("mailroom setting set signal.url VALUE")
}

// TestSettingsWithoutADaemon checks that the old values stay visible if the daemon does not respond, and that a
// failed change is reported where it was requested.
func TestSettingsWithoutADaemon(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	server := r.serves("127.0.0.1:0")
	d := r.opens(1440, false, "/operations/settings")
	d.Reads("retry.ladder")
	server.Close()
	d.Until(`document.querySelector(".live.offline")`)
	d.Eval(`document.querySelector("[aria-label='Change retry.ladder']").click()`, nil)
	d.Click("Change it")
	d.Until(`document.querySelector("dialog [role=alert]")?.innerText.includes("Cannot reach the daemon.")`)
	d.Click("Go back")
	d.Until(`!document.querySelector("dialog")`)
	d.Reads("30s,60s,120s")
}

// TestScheduleFromThePage runs a schedule from the page, which shows the outcome. Foreign parameters and errors are
// shown as texts.
func TestScheduleFromThePage(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	params, err := json.Marshal(map[string]string{"query": oddText})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schedules.Add(t.Context(), r.Router.Ledger,
		orchestrator.Schedule{Name: "odd", Spec: "@daily", Command: "sql", Params: params}); err != nil {
		t.Fatal(err)
	}
	d := r.opens(1440, false, "/operations/schedules")
	d.Reads("every day at 03:00")
	d.Reads("onerror=alert(1)")
	d.Eval(`document.querySelector("[aria-label='Run checkpoint now']").click()`, nil)
	d.Reads("Run checkpoint now?")
	d.pictured("schedule-run")
	d.Click("Run it")
	d.Reads("checkpoint has run ")
	d.Until(`[...document.querySelectorAll(".row")].find((row) => row.innerText.startsWith("checkpoint"))?.innerText.includes("ran ")`)
	d.Eval(`document.querySelector("[aria-label='Run odd now']").click()`, nil)
	d.Click("Run it")
	d.Until(`document.querySelector("dialog [role=alert]")`)
	d.Click("Go back")
	d.Until(`[...document.querySelectorAll(".row")].find((row) => row.innerText.startsWith("odd"))?.innerText.includes("failed ")`)
	d.pictured("schedules")

	// The page waits for an operation that may take long, even where it gives up others.
	d.Eval(`AbortSignal.timeout = () => AbortSignal.abort(new DOMException("", "TimeoutError"))`, nil)
	d.Eval(`document.querySelector("[aria-label='Run clear_traces now']").click()`, nil)
	d.Click("Run it")
	d.Reads("clear_traces has run ")
}

// TestDoctorAndTokens checks that the doctor reports problems, that it sends test messages only on request, and that
// a revoked token is refused.
func TestDoctorAndTokens(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	secret, token, err := agents.IssueToken(t.Context(), r.Router.Ledger, "ann", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := r.opens(1440, false, "/operations/doctor")
	d.Reads("Mailroom sent no messages")
	d.Reads("Console session, this page")
	d.pictured("doctor")
	if n := r.tests(); n != 0 {
		t.Errorf("looking sent %d test messages", n)
	}
	d.Click("Test each transport…")
	d.Reads("A test message is a real message")
	d.Click("Test them")
	d.Reads("sent each agent a test message")
	if n := r.tests(); n != 2 {
		t.Errorf("%d test messages were sent", n)
	}
	d.Eval(fmt.Sprintf(`document.querySelector("[aria-label='Revoke %s']").click()`, token.ID), nil)
	d.Click("Revoke it")
	d.Reads(token.ID + " is revoked")
	if _, err := agents.Authenticate(t.Context(), r.Router.Ledger,
		secret); orchestrator.CodeOf(err) != orchestrator.Unauthenticated {
		t.Errorf("the token that was revoked: %v", err)
	}
}

// tests counts the test messages of the doctor.
func (r *room) tests() int {
	r.t.Helper()
	table, err := r.Router.Ledger.Query(r.t.Context(),
		`SELECT 1 FROM agent_message WHERE message_type = 'transport_test'`, store.Bound{Rows: 100})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(table.Rows.Values())
}

// TestSectionsOfOperations checks that every section shows something in an empty room, fits a phone in both themes,
// and tells an agent without the right what to do.
func TestSectionsOfOperations(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	full := newRoom(t, "architect", "builder")
	for i := range 3 {
		full.givesUp("architect", "builder", fmt.Sprintf("exit status %d: %s", i, oddText))
	}
	sections := []string{"", "/dead-letters", "/schedules", "/settings", "/database", "/doctor"}
	for name, of := range map[string]*room{"empty": r, "full": full} {
		for _, look := range []struct {
			width int64
			dark  bool
		}{{360, false}, {360, true}, {1440, name == "full"}} {
			d := of.opens(look.width, look.dark, "/operations")
			for _, section := range sections {
				d.Open(of.Address + "/operations" + section)
				d.Until(`document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
				if n := d.tooWide(); n > 0 {
					t.Errorf("%s, %s, is %d pixels wider than a window of %d", section, name, n, look.width)
				}
				d.pictured(fmt.Sprintf("%d-operations%s-%s-%t", look.width, strings.ReplaceAll(section, "/", "-"), name,
					look.dark))
			}
		}
	}
	s := r.browser.NewScreen(1024, 768, false)
	s.Open(r.Address + "/operations/dead-letters")
	s.Type("Token", r.Token("ann", false))
	s.Click("Log in")
	s.Reads("Operations are for administrators")
}
