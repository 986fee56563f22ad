package console_test

import (
	"strconv"
	"strings"
	"testing"
)

// TestThreads checks that a thread is shown as a conversation, with authors, times, mentions and outcome, updates
// live, and can be read back post by post.
func TestThreads(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob", "carol")
	d := r.opens(1440, false, "/threads")
	d.Reads("There are no threads yet")
	made := r.as("ann", "coral_create_thread",
		map[string]any{"threadName": "release 2.4", "participantIds": []string{"bob"}})
	thread := made["threadId"].(string)
	r.as("ann", "coral_create_thread", map[string]any{"threadName": "lunch"})
	for i := range 55 {
		r.as("ann", "coral_send_message",
			map[string]any{"threadId": thread, "content": "post " + strconv.Itoa(i), "mentions": []string{"bob"}})
	}
	d.Open(r.Address + "/threads")
	d.Reads("Two threads are open")
	d.Type("Find a thread by its name", "RELEASE")
	d.Until(`document.querySelectorAll("main tbody tr").length === 1`)
	d.Reads("One thread shown, 1 open")
	d.Click("release 2.4")
	d.Until(`document.querySelectorAll(".talk .body").length === 50`)
	d.Reads("post 54")
	d.Reads("@bob")
	d.Click("Earlier posts")
	d.Until(`document.querySelectorAll(".talk .body").length === 55`)
	d.Until(`document.querySelector(".talk .body").innerText === "post 0"`)

	r.as("bob", "coral_send_message", map[string]any{"threadId": thread, "content": "it is out"})
	d.Reads("it is out")                                              // without a request
	d.Until(`document.querySelectorAll(".talk .body").length === 56`) // all shown posts are still there
	var message string
	d.Eval(`document.querySelector(".talk li:last-child .meta a.mono").getAttribute("href")`, &message)
	if !strings.HasPrefix(message, "/messages/msg-") {
		t.Errorf("a post leads to %q", message)
	}
	r.as("bob", "coral_send_message",
		map[string]any{"threadId": thread, "content": "carol, are you there?", "mentions": []string{"ann"}})
	d.Until(`document.querySelector(".talk li:last-child .fate")?.innerText.includes("not delivered yet")`)
	r.as("ann", "wait", map[string]any{})
	d.Until(`document.querySelector(".talk li:last-child .fate")?.innerText.includes("read it")`)
	d.Click("Add an agent…")
	d.Type("Name of the agent", "carol")
	d.Click("Add")
	d.Until(`[...document.querySelectorAll(".people .agent")].some((a) => a.textContent === "carol")`)
	d.Click("Close…")
	d.Type("Outcome", "2.4 is out")
	d.Click("Close it")
	d.Reads("Outcome: 2.4 is out")
	d.Key("Escape")
	d.Until(`location.pathname === "/threads"`)
	d.Click("Closed")
	d.Until(`document.querySelectorAll("main tbody tr").length === 1`)
}

// TestThreadsInTheirStates checks that posts, names and outcomes of threads are shown as texts, and that the page
// helps if a thread does not exist.
func TestThreadsInTheirStates(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "boss")
	made := r.as("ann", "coral_create_thread", map[string]any{"threadName": strings.ReplaceAll(hostile, "\u202e", "")})
	thread := made["threadId"].(string)
	r.as("ann", "coral_send_message",
		map[string]any{"threadId": thread, "content": hostile + strings.Repeat("long", 500)})
	r.looksRight("/threads", `document.querySelectorAll("main tbody tr").length === 1`)
	r.looksRight("/threads/"+thread, `document.querySelectorAll(".talk .body").length === 1`)
	d := r.opens(1440, false, "/threads/thread-none")
	d.Reads("There is no thread thread-none")
	s := r.browser.NewScreen(1440, 900, false)
	s.Open(r.Address + "/threads")
	s.Type("Token", r.Token("ann", false))
	s.Click("Log in")
	s.Reads("only an administrator may see the list of all threads")
}
