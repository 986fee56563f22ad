package hosts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// shows makes an event show the messages, each as its payload, and the groups, each as a line of a digest, and
// calls Written. It returns the text.
func (r room) shows(kind hosts.Kind, change ...func(*hosts.Event)) string {
	r.T.Helper()
	a := r.event(kind, append(change, func(e *hosts.Event) {
		e.Size = func(m *orchestrator.Message) int { return len(m.Payload) }
		e.Line = func(g *hosts.Group) string {
			return fmt.Sprintf("%d %s %s;", g.Messages, g.Newest.Sender, g.Newest.Type)
		}
	})...)
	var b strings.Builder
	for i := range a.Messages {
		b.Write(a.Messages[i].Payload)
	}
	b.WriteString(strings.Join(a.Digest.Lines, ""))
	if a.Digest.Left > 0 {
		fmt.Fprintf(&b, "%d more", a.Digest.Left)
	}
	if a.Left > 0 {
		fmt.Fprintf(&b, "%d left", a.Left)
	}
	a.Size = b.Len()
	if err := hosts.Written(r.T.Context(), r.Ledger, &a); err != nil {
		r.T.Fatal(err)
	}
	return b.String()
}

// long is the payload of a message that takes a sixth of a budget of 6,000 bytes.
var long = `"` + strings.Repeat("x", 998) + `"`

func saying(payload string) func(*orchestrator.Draft) {
	return func(d *orchestrator.Draft) { d.Payload = []byte(payload) }
}

// frugal is a room in which bob's context may get 6,000 bytes an hour.
func frugal(t *testing.T) room {
	r := newRoom(t)
	r.Clock.Advance(r.Clock.Now().Truncate(time.Hour).Add(time.Hour).Sub(r.Clock.Now()))
	r.Set("budget.bytes", "6000")
	r.event(hosts.Prompted)
	return r
}

// Messages over the budget are listed in a digest, once in a session, wake nobody again, and stay unread until
// somebody asks for them. A new session lists them too, and a new hour has a new budget.
func TestBudget(t *testing.T) {
	t.Parallel()
	r := frugal(t)
	for range 8 {
		r.Send("alice", "bob", saying(long))
	}
	r.Send("alice", "bob", saying(`"short"`), typed("STATUS"))
	want.Equal(t, "first", r.shows(hosts.Worked), strings.Repeat(long, 4)+"1 alice STATUS;4 alice note;")
	want.Equal(t, "again", r.shows(hosts.Worked), "")
	want.Equal(t, "at the end of the turn", r.shows(hosts.Stopped), "")
	r.Clock.Advance(time.Second)
	r.looks(r.waiter("one"), hosts.Quiet, 0)
	want.Rows(t, r.Rows(`SELECT way, sum(messages), sum(bytes) FROM context_use GROUP BY way ORDER BY way`), "digest 5 28", "hook 4 4000")
	id := r.Send("alice", "bob", saying(`"short"`))
	r.looks(r.waiter("one"), hosts.Wake, 1)
	want.Equal(t, "the next", r.shows(hosts.Woken), `"short"`)
	want.Equal(t, "in another session", r.shows(hosts.Prompted, inSession("two")), "1 alice STATUS;4 alice note;")
	r.event(hosts.Stopped)
	if why := r.Why(id).Rule; strings.Contains(why, "digest") {
		t.Errorf("why has %q of what was shown", why)
	}
	last := r.Rows(`SELECT max(message_id) FROM agent_inbox WHERE told_in <> ''`)[0]
	if why := r.Why(last).Rule; !strings.Contains(why, "listed in a digest, but not shown, in sessions one and two, because ") {
		t.Errorf("why has %q", why)
	}
	r.Clock.Advance(time.Hour)
	want.Equal(t, "in the next hour", r.shows(hosts.Prompted), "")
	r.Send("alice", "bob", saying(long))
	want.Equal(t, "what is new then", r.shows(hosts.Worked), long)
	want.Equal(t, "by whoever asks", len(r.TakeFor("bob", 0)), 5)
}

// Urgent messages are shown beyond the budget, ten of a sender in an hour.
func TestUrgentBeyondTheBudget(t *testing.T) {
	t.Parallel()
	r := frugal(t)
	for range 7 {
		r.Send("alice", "bob", saying(long))
	}
	r.shows(hosts.Worked)
	for range 6 {
		r.Send("alice", "bob", saying(`"urgent"`), func(d *orchestrator.Draft) { d.Priority = 2 })
		r.Send("alice", "bob", saying(`"interrupt"`), func(d *orchestrator.Draft) { d.Action = "interrupt" })
	}
	r.Send("alice", "bob", saying(long))
	want.Equal(t, "first", r.shows(hosts.Worked), strings.Repeat(`"interrupt"`, 6)+strings.Repeat(`"urgent"`, 6)+"1 alice note;")
	for range 11 {
		r.Send("alice", "bob", saying(long), func(d *orchestrator.Draft) { d.Priority = 2 })
	}
	want.Equal(t, "next", r.shows(hosts.Worked), strings.Repeat(long, 10)+"1 alice note;")
	want.Equal(t, "at last", r.shows(hosts.Worked), "")
}

// However many messages arrive, the context gets no more than the budget, and all of them can be read.
func TestFlood(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.Set("budget.bytes", "20000")
	r.Set("hops.inherited", "10000")
	r.event(hosts.Prompted)
	put := 0
	const n = 400
	for i := range n {
		r.Send("alice", "bob", saying(long), func(d *orchestrator.Draft) { d.ThreadID = fmt.Sprint("thread ", i) })
		put += len(r.shows(hosts.Worked))
	}
	for range 20 {
		put += len(r.shows(hosts.Worked))
	}
	if put > 20000 || put < 15000 {
		t.Errorf("%d bytes were put into the context", put)
	}
	unread := 0
	for ms := r.TakeFor("bob", 0); len(ms) > 0; ms = r.TakeFor("bob", 0) {
		unread += len(ms)
	}
	shown := r.Rows(`SELECT sum(messages) FROM context_use WHERE way = 'hook'`)[0]
	want.Equal(t, "shown and read", fmt.Sprint(n-unread), shown)
}

// If not even a line fits into the budget, no session is woken and no turn goes on, except for an urgent message.
func TestBudgetUsedUp(t *testing.T) {
	t.Parallel()
	r := frugal(t)
	used := []cost.Use{{Sender: "alice", Type: "note", Way: cost.WayDigest, Messages: 9, Bytes: 6000}}
	if err := r.Ledger.Write(t.Context(), store.Of("bob"), func(x *ledger.Tx) error { return cost.Note(x, "bob", used) }); err != nil {
		t.Fatal(err)
	}
	r.Send("alice", "bob")
	want.Equal(t, "at the end of the turn", r.shows(hosts.Stopped), "")
	want.Equal(t, "where that is told", r.event(hosts.Stopped, nudge).Left, 0)
	r.Clock.Advance(time.Second)
	w := r.waiter("one")
	r.looks(w, hosts.Quiet, 0)
	r.Send("alice", "bob", saying(`"urgent"`), func(d *orchestrator.Draft) { d.Priority = 2 })
	r.looks(w, hosts.Wake, 1)
	want.Equal(t, "woken", r.shows(hosts.Woken), `"urgent"`)
	r.event(hosts.Stopped)
	r.Clock.Advance(time.Hour)
	r.looks(r.waiter("one"), hosts.Wake, 1)
}

// Without a budget everything is shown, and still counted.
func TestWithoutABudget(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.Set("budget.bytes", "0")
	for range 15 {
		r.Send("alice", "bob", saying(long))
	}
	want.Equal(t, "shown", r.shows(hosts.Prompted), strings.Repeat(long, 15))
	want.Rows(t, r.Rows(`SELECT sender, message_type, way, messages, bytes FROM context_use`), "alice note hook 15 15000")
}

// A sender with too many urgent messages does not block those of others, and the user's messages are always shown.
func TestUrgentOfOthers(t *testing.T) {
	t.Parallel()
	r := frugal(t)
	r.AddAll("carol")
	urgent := func(d *orchestrator.Draft) { d.Priority = 2 }
	for range 7 {
		r.Send("alice", "bob", saying(long))
	}
	r.shows(hosts.Worked)
	for range 11 {
		r.Send("alice", "bob", saying(long), urgent)
	}
	r.Send("carol", "bob", saying(`"`+strings.Repeat("c", 998)+`"`), urgent)
	want.Equal(t, "first", r.shows(hosts.Worked), strings.Repeat(long, 10)+"1 alice note;")
	want.Equal(t, "next", r.shows(hosts.Worked), `"`+strings.Repeat("c", 998)+`"`)
	r.event(hosts.Stopped)
	r.Clock.Advance(time.Second)
	r.Send("alice", "bob", saying(long), urgent)
	r.SQL(`UPDATE context_use SET bytes = 6000 WHERE way = 'hook'`)
	r.looks(r.waiter("one"), hosts.Quiet, 0) // nothing of it could be shown
}

// If there are more kinds than lines in a digest, the next digests list the rest, and nothing counts as listed that
// is not.
func TestDigestsNameAll(t *testing.T) {
	t.Parallel()
	r := frugal(t)
	r.Set("budget.bytes", "60000")
	if err := r.Ledger.Write(t.Context(), store.Of("bob"), func(x *ledger.Tx) error {
		return cost.Note(x, "bob", []cost.Use{{Sender: "alice", Type: "note", Way: cost.WayDigest, Messages: 9, Bytes: 52_500}})
	}); err != nil {
		t.Fatal(err)
	}
	const kinds = 50
	for i := range kinds {
		r.Send("alice", "bob", saying(`"`+strings.Repeat("x", 9000)+`"`), typed(fmt.Sprintf("kind%d", i)))
	}
	named := map[string]bool{}
	for _, left := range []string{"30 more", "10 more", ""} {
		text := r.shows(hosts.Worked)
		if !strings.HasSuffix(text, ";"+left) {
			t.Errorf("%q does not say %q", text, left)
		}
		for _, line := range strings.Split(strings.TrimSuffix(text, left), ";") {
			named[line] = true
		}
	}
	want.Equal(t, "named", len(named), kinds+1) // and nothing after the last
	want.Equal(t, "again", r.shows(hosts.Worked), "")
}

// Pairs returns the pairs with the most bytes first, then by name, only those with enough messages and bytes, and
// no more than requested.
func TestPairs(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	note := func(agent string, uses ...cost.Use) {
		if err := r.Ledger.Write(t.Context(), store.Of(agent), func(x *ledger.Tx) error { return cost.Note(x, agent, uses) }); err != nil {
			t.Fatal(err)
		}
	}
	note("bob", cost.Use{Sender: "alice", Type: "note", Way: cost.WayTool, Messages: 9, Bytes: 9000})
	r.Clock.Advance(2 * time.Hour)
	note("bob", cost.Use{Sender: "alice", Type: "note", Way: cost.WayTool, Messages: 1, Bytes: 100},
		cost.Use{Sender: "alice", Type: "STATUS", Way: cost.WayDigest, Messages: 1, Bytes: 200}, cost.Use{Sender: "carol", Messages: 2, Bytes: 900})
	note("alice", cost.Use{Sender: "bob", Messages: 3, Bytes: 300}, cost.Use{Sender: "carol", Messages: 1, Bytes: 50})
	pairs := func(since time.Duration, messages, bytes int64, most int) (lines []string) {
		err := r.Ledger.Look(t.Context(), func(c *store.Conn) error {
			lines = nil
			list, err := cost.Pairs(c, r.Clock.Now().Add(-since), messages, bytes, most)
			for _, p := range list {
				lines = append(lines, fmt.Sprint(p.Sender, " ", p.Recipient, " ", p.Messages, " ", p.Bytes, " ", p.Tokens))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	want.Rows(t, pairs(time.Hour, 0, 0, 9), "carol bob 2 900 225", "alice bob 2 300 75", "bob alice 3 300 75", "carol alice 1 50 12")
	want.Rows(t, pairs(time.Hour, 2, 300, 2), "carol bob 2 900 225", "alice bob 2 300 75")
	want.Rows(t, pairs(time.Hour, 3, 0, 9), "bob alice 3 300 75")
	want.Rows(t, pairs(3*time.Hour, 0, 1000, 9), "alice bob 11 9300 2325")
}
