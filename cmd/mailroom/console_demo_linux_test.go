package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/commands/surface/phone/browsertest"
)

var screenshots = flag.Bool("screenshots", false, "write the pictures of the console to docs/console")

// begins is when the demo of the pictures begins, and looks is how much later the console is opened.
var begins = time.Date(2026, time.November, 20, 15, 2, 11, 0, time.UTC)

const looks = 18 * time.Minute

// tour is the console of a demo's database, served by a daemon.
type tour struct {
	*office
	browser *browsertest.Chromium
	served  *serving
	clock   time.Duration // how far its clock is ahead of this machine's
}

// newTour runs the demo, and then a daemon with the console on its database.
func newTour(t *testing.T) *tour {
	t.Helper()
	ctx := browsertest.Start(t, browsertest.ShellPrograms...)
	clock := filepath.Join(t.TempDir(), "clock")
	v := &tour{office: &office{t: t, folder: t.TempDir(), program: "mailroom-faulty"}, clock: time.Until(begins)}
	v.env = []string{"MAILROOM_TEST_CLOCK=" + clock, "TMPDIR=/tmp", "MAILROOM_HOST_NAME=workshop", "TZ=UTC"}
	set := func() {
		if err := os.WriteFile(clock, []byte(v.clock.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set()
	v.db = v.run("demo")["database"].(string)
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(v.db)) })
	v.clock += looks
	set()
	first := v.serve()
	first.cmd.Process.Kill()
	first.cmd.Wait()
	// Use the same address again, so that a browser can be paired.
	v.served = v.serveAt(strings.TrimPrefix(first.address, "http://"))
	v.browser = browsertest.StartShell(ctx, t)
	return v
}

// opens logs in, in a window of a width, and shows an address of the console.
func (v *tour) opens(width int64, dark bool) *browsertest.Screen {
	v.t.Helper()
	cmd, address, code := v.consoleOf()
	if err := cmd.Wait(); err != nil {
		v.t.Fatal(err)
	}
	s := v.browser.NewScreen(width, 900, dark)
	s.SetClock(v.clock)
	s.Open(address + "/#code=" + code)
	s.Until(`document.querySelector(".live[title]")`)
	return s
}

// id returns the ID of the message that a condition selects.
func (v *tour) id(where string) string {
	v.t.Helper()
	return v.rows(`SELECT message_id FROM agent_message WHERE ` + where)[0]
}

// TestConsoleOfDemo shows the demo's database in the console. It checks the descriptions of a message with several
// attempts, one that bounced, one that a person answered and one in a thread. With -screenshots it takes the pictures
// of docs/console.
func TestConsoleOfDemo(t *testing.T) {
	t.Parallel()
	v := newTour(t)
	ladder, bounced := v.id(`message_type = 'status_update'`), v.id(`status = 'failed'`)
	answered, thread := v.id(`recipient = 'user'`),
		v.id(`thread_id <> '' AND recipient = 'orchestrator' AND message_type <> 'thread_closed'`)
	question := v.rows(`SELECT question_id FROM signal_questions`)[0]
	stops := []struct {
		name, path string // a stop without a name has no picture
		says       []string
	}{
		{"now", "/", []string{"One thing needs your attention"}},
		{"messages", "/messages", []string{"status_update"}},
		{"message-ladder", "/messages/" + ladder, []string{"Delivered on the fourth attempt", "waiting to retry"}},
		{"message-bounced", "/messages/" + bounced,
			[]string{"Failed after two attempts", "orchestrator was notified", "as a dead letter"}},
		{"message-answered", "/messages/" + answered,
			[]string{"A person has answered", "Waited for a person", "Answered on the demo's phone",
				"The answer was sent"}},
		{"", "/messages/" + question, []string{"A person has answered", "Asked by code_developer"}},
		{"message-thread", "/messages/" + thread,
			[]string{"Posted by architect", "this message", "code_developer: It is merged"}},
		{"threads", "/threads/" + v.rows(`SELECT thread_id FROM threads`)[0],
			[]string{"Outcome: 2.4 is tagged."}},
		{"agent", "/agents/builder", []string{"jsonl:"}},
		{"questions", "/questions", []string{"on the demo's phone"}},
		{"operations", "/operations", []string{"builder"}},
		{"audit", "/audit/retries_by_recipient",
			[]string{"failed_attempts", "builder", "mailroom --db " + v.db + " sql --named"}},
	}
	for _, look := range []struct {
		width int64
		dark  bool
		only  string // names; "" is all
		theme string // a part of the pictures' names
	}{
		{1440, false, "", "light"}, {1440, true, "now", "dark"},
		{390, false, "now", "narrow"},
		{390, true, "message-ladder message-bounced message-answered message-thread", "narrow-dark"},
	} {
		if look.only != "" && !*screenshots {
			break
		}
		s := v.opens(look.width, look.dark)
		for _, stop := range stops {
			if look.only != "" && !strings.Contains(" "+look.only+" ", " "+stop.name+" ") {
				continue
			}
			s.Eval(fmt.Sprintf(`(history.pushState(null, "", %q), dispatchEvent(new PopStateEvent("popstate")))`,
				stop.path), nil)
			s.Until(`document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
			for _, text := range stop.says {
				s.Reads(text)
			}
			if !*screenshots || stop.name == "" {
				continue
			}
			v.keeps(s, look.width, stop.name+"-"+look.theme)
		}
	}
	gone := strings.TrimPrefix(v.rows(`SELECT deliver FROM agents WHERE name = 'builder'`)[0], "jsonl:")
	if err := os.MkdirAll(filepath.Dir(gone), 0o700); err != nil {
		t.Fatal(err)
	}
	v.run("dead_letters", "replay", bounced)
	s := v.opens(1440, false)
	s.Reads("Nothing needs your attention")
	s.Until(`document.querySelectorAll(".plot").length === 3 && !document.querySelector("[aria-busy=true]")`)
	if *screenshots {
		v.keeps(s, 1440, "now-calm-light")
	}
}

// keeps writes a picture of the page to docs/console.
func (v *tour) keeps(s *browsertest.Screen, width int64, name string) {
	v.t.Helper()
	if err := browsertest.Keep(filepath.Join("..", "..", "docs", "console", name+".png"),
		s.Whole(width, 900, 1800)); err != nil {
		v.t.Fatal(err)
	}
}
