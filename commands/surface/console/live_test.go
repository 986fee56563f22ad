package console_test

import (
	"fmt"
	"testing"

	"mailroom/commands/surface/web"
)

// asking keeps what the page asks for from now on in window.asked.
const asking = `(() => {
	const before = window.fetch;
	window.asked = [];
	window.fetch = (...what) => (window.asked.push(String(what[0])), before(...what));
})()`

// While nobody looks at it the page asks for nothing, and when somebody does again it shows all that has happened.
func TestHiddenPage(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	for _, path := range []string{"/messages", "/", "/agents"} {
		d := r.opens(1440, false, path)
		d.Until(`document.querySelector(".live.live") && document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
		d.Hide(true)
		d.Until(`document.querySelector(".live.paused")`)
		d.Eval(asking, nil)
		r.send("ann", "bob", "note", `"sent while nobody looked at `+path+`"`)
		r.deliver()
		d.Eval(`new Promise((f) => setTimeout(f, 2500))`, nil) // longer than the shortest time between two questions
		var asked []string
		if d.Eval(`window.asked`, &asked); len(asked) > 0 {
			t.Errorf("%s, hidden, asks for %v", path, asked)
		}
		d.Hide(false)
		d.Until(`document.querySelector(".live.live") && window.asked.some((path) => path.startsWith("/v1/commands/"))`)
		if path == "/messages" {
			d.Until(rows + `.startsWith("sent while nobody looked at ")`)
		}
	}
}

// On a server a message may be seen after others that have a higher number. It comes to its place without a reload.
func TestLateMessages(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	d := r.opens(1440, false, "/messages")
	d.Until(`document.querySelector(".live.live")`)
	insert := func(seq int, says string) {
		r.sql(`INSERT INTO agent_message (seq, message_id, sender, recipient, message_type, payload) VALUES (?1, ?2, 'ann', 'bob', 'note', ?3)`, seq, fmt.Sprint("m", seq), `"`+says+`"`)
		r.deliver()
	}
	insert(100, "the first")
	insert(300, "the third")
	d.Until(rows + ` === "the third|the first"`)
	insert(200, "late")
	d.Until(rows + ` === "the third|late|the first"`)
	d.Key("j")
	insert(250, "later")
	d.Reads("1 new")
	d.Key(".")
	d.Until(rows + ` === "the third|later|late|the first"`)
	filtered := r.opens(1440, false, "/messages?to=bob")
	filtered.Until(rows + ` === "the third|later|late|the first" && document.querySelector(".live.live")`)
	insert(150, "very late")
	filtered.Until(rows + ` === "the third|later|late|very late|the first"`)
}

// An older copy of the database, in which the last event that the page has seen never happened, is followed from then on.
func TestOlderDatabase(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann", "bob")
	server, err := web.Listen(t.Context(), r.Env, web.Options{Address: "127.0.0.1:0", RatePerSecond: 100_000, Version: "v1.2.3", Console: true})
	if err != nil {
		t.Fatal(err)
	}
	own := r.Address
	r.Address = server.Address
	r.send("ann", "bob", "note", `"of the past"`)
	r.deliver()
	d := r.opens(1440, false, "/messages")
	d.Until(rows + ` === "of the past" && document.querySelector(".live.live")`)
	r.send("ann", "bob", "note", `"undone"`)
	d.Until(rows + ` === "undone|of the past"`)
	server.Close()
	d.Until(`document.querySelector(".live.offline")`)
	r.sql(`DELETE FROM message_trace WHERE id > 1`)
	r.sql(`DELETE FROM agent_message WHERE payload = '"undone"'`)
	server, err = web.Listen(t.Context(), r.Env, web.Options{Address: r.Address[len("http://"):], RatePerSecond: 100_000, Version: "v1.2.3", Console: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	d.Until(`document.querySelector(".live.live")`)
	r.Address = own
	r.send("ann", "bob", "note", `"of a new time"`)
	d.Until(rows + `.startsWith("of a new time|")`)
}
