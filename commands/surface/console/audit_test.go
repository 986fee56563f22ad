package console_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestNamedAudit checks that a named audit runs when it is opened, has its parameters in the address, is sorted by a
// click, and can be saved as a file in which spreadsheets find no formulas.
func TestNamedAudit(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "architect", "builder", "tester")
	for range 2 {
		r.givesUp("architect", "builder", oddText)
	}
	r.givesUp("architect", "tester", "a")
	d := r.opens(1440, false, "/audit")
	d.Until(`document.querySelector("a[href='/audit/dead_letters_by_reason']")`)
	d.Eval(`document.querySelector("a[href='/audit/dead_letters_by_reason']").click()`, nil)
	d.Until(`location.pathname === "/audit/dead_letters_by_reason"`)
	d.Reads("Dead letters, counted by reason")
	d.Reads(oddText)
	d.Reads("mailroom sql --named dead_letters_by_reason")
	d.pictured("audit-named")
	first := func() (text string) {
		d.Eval(`document.querySelector("tbody tr").innerText`, &text)
		return text
	}
	if text := first(); !strings.Contains(text, "builder") {
		t.Errorf("the first row is %q", text)
	}
	d.Click("messages")
	d.Until(`document.querySelector("th[aria-sort=descending]")`)
	d.Click("messages ↓")
	d.Until(`document.querySelector("th[aria-sort=ascending]")`)
	if text := first(); !strings.Contains(text, "tester") {
		t.Errorf("sorted by messages, the first row is %q", text)
	}
	d.Eval(`(() => { URL.createObjectURL = (blob) => { window.saved = blob; return "#" }; const follow = HTMLAnchorElement.prototype.click;
		HTMLAnchorElement.prototype.click = function () { this.download ? window.savedAs = this.download : follow.call(this) } })()`, nil)
	d.Click("Download as CSV")
	var file struct{ Name, Text string }
	d.Eval(`(async () => ({ name: savedAs, text: await saved.text() }))()`, &file)
	for _, part := range []string{"reason,recipient,messages,latest_at\r\na,tester,1,", "\"'=1+1 <img src=x",
		";'=2+2\""} {
		if !strings.Contains(file.Text, part) || file.Name != "mailroom-dead_letters_by_reason.csv" {
			t.Errorf("the file %s has not %q:\n%s", file.Name, part, file.Text)
		}
	}
	d.Eval(`document.querySelector("a[href='/audit/failed_last_day']").click()`, nil)
	d.Until(`document.querySelector(".query input")`)
	d.Eval(`(() => { const i = document.querySelector(".query input"); i.value = "72"; i.dispatchEvent(new Event("input", { bubbles: true })) })()`, nil)
	d.Click("Run again")
	d.Until(`location.search.endsWith("=72")`)
	d.Reads("--params 72")
}

// TestQueryByHand checks that a typed query can only read, that its errors are shown in place, and that the page
// reports a result with too many rows.
func TestQueryByHand(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "architect")
	d := r.opens(1440, true, "/audit")
	ask := func(query string) {
		t.Helper()
		d.Eval(fmt.Sprintf(`(() => { const q = document.querySelector("textarea"); q.value = %q; q.dispatchEvent(new Event("input", { bubbles: true })); q.form.requestSubmit() })()`, query), nil)
	}
	d.Until(`document.querySelector("textarea")`)
	ask("SELECT name, 7 AS n, NULL AS empty, '<b>bold</b>' AS markup FROM agents")
	d.Reads("<b>bold</b>")
	d.Reads("NULL")
	d.Reads("1 row")
	d.pictured("audit-by-hand-dark")
	ask("DELETE FROM agents")
	d.Until(`document.querySelector(".answer [role=alert]")`)
	if text := d.Text(); strings.Contains(text, "<b>bold</b>") && !strings.Contains(text, "DELETE") {
		t.Errorf("after a write that is refused the page says %s", text)
	}
	ask("SELECT hash FROM tokens")
	d.Until(`document.querySelector(".answer [role=alert]") && !document.querySelector(".btn.first[disabled]")`)
	ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i FROM n")
	d.Reads("There are more rows than these 1,000")
	d.Click("Show 800 more of 1,000")
	d.Until(`document.querySelectorAll("tbody tr").length === 1000`)
	d.Eval(`document.querySelector("a[href='/audit/overdue']").click()`, nil)
	d.Reads("The audit found no rows.")
	d.Eval(`history.back()`, nil)
	d.Until(`document.querySelector("textarea")?.value.startsWith("WITH RECURSIVE")`)
	if conf, err := r.Router.Ledger.Configuration(t.Context()); err != nil || conf.Agents["architect"] == nil {
		t.Error("an agent is gone", err)
	}
}

// TestAuditOnAPhone checks that audits fit a phone in both themes, and that an agent without the right is told what
// to do.
func TestAuditOnAPhone(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	r.givesUp("ann", "bob", strings.Repeat(oddText, 20))
	for _, dark := range []bool{false, true} {
		d := r.opens(360, dark, "/audit")
		for _, path := range []string{"/audit", "/audit/sql", "/audit/dead_letters_by_reason", "/audit/overdue",
			"/audit/none"} {
			d.Open(r.Address + path)
			d.Until(`document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
			if n := d.tooWide(); n > 0 {
				t.Errorf("%s is %d pixels too wide for a phone", path, n)
			}
			d.pictured(fmt.Sprintf("phone-%s-%t", strings.ReplaceAll(path[1:], "/", "-"), dark))
		}
	}
	s := r.browser.NewScreen(1024, 768, false)
	s.Open(r.Address + "/audit")
	s.Type("Token", r.Token("ann", false))
	s.Click("Log in")
	s.Reads("You are logged in as ann, which is not an administrator")
}
