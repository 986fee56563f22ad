package hosts_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/removal"
)

// talking is a room in which alice and bob work in sessions, and carol does not.
func talking(t *testing.T) room {
	r := newRoom(t)
	r.AddAll("carol")
	r.event(hosts.Prompted)
	r.event(hosts.Prompted, inSession("hers"), func(e *hosts.Event) { e.Agent = "alice" })
	return r
}

func (r room) hold(a, b string) (held bool, n int, err error) {
	_, held, n, err = hosts.Hold(r.T.Context(), r.Ledger, a, b, "a person")
	return held, n, err
}

func (r room) letGo(a, b string) (let bool, n int) {
	r.T.Helper()
	_, let, n, err := hosts.LetGo(r.T.Context(), r.Ledger, a, b, "a person")
	if err != nil {
		r.T.Fatal(err)
	}
	return let, n
}

// held checks that alice's and bob's messages to each other wait, and their number.
func (r room) held(n int) {
	r.T.Helper()
	held, waiting, err := r.hold("bob", "alice")
	want.Equal(r.T, "error", err, nil)
	want.Equal(r.T, "held anew", held, false)
	want.Equal(r.T, "waiting", waiting, n)
}

func withTTL(d *orchestrator.Draft) { d.TTL = 10 * time.Minute }

// Messages between two agents are held, both existing and new ones, and their TTL is suspended. Both agents are
// notified once, and get messages of others. When the hold is released, all messages are delivered in order.
func TestHold(t *testing.T) {
	t.Parallel()
	r := talking(t)
	before := r.Send("alice", "bob", withTTL)
	r.Clock.Advance(time.Minute)
	held, n, err := r.hold("Alice", "bob")
	want.Equal(t, "error", err, nil)
	want.Equal(t, "held", held, true)
	want.Equal(t, "waiting", n, 1)
	sent, err := messages.Send(t.Context(), r.Ledger, orchestrator.Draft{Sender: "alice", Recipient: "bob", Type: "note", TTL: 10 * time.Minute})
	want.Equal(t, "error", err, nil)
	if !strings.Contains(sent.Note, "is held until ") || !strings.Contains(sent.Note, " by a person: do not send it again") {
		t.Errorf("the sender is told %q", sent.Note)
	}
	r.Send("bob", "alice")
	other := r.Send("carol", "bob")
	r.held(3)
	r.Deliver()
	got := r.TakeFor("bob", 0)
	want.Equal(t, "messages to bob", len(got), 2)
	want.Equal(t, "type", got[0].Type+" "+got[1].ID, hosts.HeldNotice+" "+other)
	if text := string(got[0].Payload); !strings.Contains(text, "Messages between you and alice are held by a person until ") {
		t.Errorf("bob is told %s", text)
	}
	want.Equal(t, "messages to alice", len(r.TakeFor("alice", 0)), 1)
	if why := r.Why(before); !strings.Contains(why.Rule, "messages between alice and bob are held until ") ||
		why.Fix != "To release these messages, run `mailroom hold alice bob --off`" {
		t.Errorf("why has %q, %q", why.Rule, why.Fix)
	}
	r.Clock.Advance(30 * time.Minute)
	r.Deliver()
	want.Equal(t, "messages to bob", len(r.TakeFor("bob", 0)), 0)
	let, n := r.letGo("bob", "alice")
	want.Equal(t, "let go", let, true)
	want.Equal(t, "messages let go", n, 3)
	want.Equal(t, "when the first expires", r.Message(before).ExpiresAt, orchestrator.Stamp(r.Clock.Now().Add(9*time.Minute)))
	r.Deliver()
	want.IDs(t, r.TakeFor("bob", 0), before, sent.MessageID)
	want.Equal(t, "messages to alice", len(r.TakeFor("alice", 0)), 1)
	want.Rows(t, r.Rows(`SELECT count(*) FROM agent_message WHERE message_type = 'held'`), "2")
	let, _ = r.letGo("bob", "alice")
	want.Equal(t, "let go again", let, false)
	held, _, err = r.hold("alice", "bob")
	want.Equal(t, "error", err, nil)
	want.Equal(t, "held anew", held, true)
	want.Rows(t, r.Rows(`SELECT key FROM settings WHERE key LIKE 'hold.%' OR key LIKE 'go_on.%'`), "hold.alice bob")
}

// A hold ends by itself after an hour.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	r := talking(t)
	id := r.Send("alice", "bob", withTTL)
	if _, _, err := r.hold("alice", "bob"); err != nil {
		t.Fatal(err)
	}
	r.Clock.Advance(time.Hour - time.Second)
	r.Deliver()
	want.Equal(t, "delivered", len(r.TakeFor("alice", 0)), 1) // the notice
	want.Equal(t, "status", r.Message(id).Status, orchestrator.Pending)
	r.Clock.Advance(time.Second)
	r.Deliver()
	want.Equal(t, "status", r.Message(id).Status, orchestrator.Delivered)
	r.Send("alice", "bob")
	held, n, err := r.hold("alice", "bob")
	want.Equal(t, "error", err, nil)
	want.Equal(t, "held anew", held, true)
	want.Equal(t, "waiting", n, 1)
	want.Rows(t, r.Rows(`SELECT count(*) FROM settings WHERE key LIKE 'hold.%'`), "1")
}

// Only messages between two agents with living sessions can be held, and not for a removed agent.
func TestWhatCannotBeHeld(t *testing.T) {
	t.Parallel()
	r := talking(t)
	for names, code := range map[[2]string]orchestrator.Code{
		{"alice", "nobody"}: orchestrator.NotFound, {"alice", "alice"}: orchestrator.InvalidParams,
		{"alice", "operator"}: orchestrator.InvalidParams, {"alice", "carol"}: orchestrator.Conflict,
	} {
		_, _, err := r.hold(names[0], names[1])
		want.Equal(t, strings.Join(names[:], " and "), orchestrator.CodeOf(err), code)
	}
	if _, _, err := r.hold("alice", "bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := removal.Remove(t.Context(), r.Ledger, removal.Request{Name: "alice", Force: true}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, r.Rows(`SELECT count(*) FROM settings WHERE key LIKE 'hold.%' OR key LIKE 'go_on.%'`), "0")
}

// A message with a later time of delivery does not come earlier because it was held, whether it was sent before or
// during the hold.
func TestHoldKeepsWhatIsWantedLater(t *testing.T) {
	t.Parallel()
	r := talking(t)
	later := func(d *orchestrator.Draft) { d.Delay = 30 * time.Minute }
	before := r.Send("alice", "bob", later)
	if _, _, err := r.hold("alice", "bob"); err != nil {
		t.Fatal(err)
	}
	during := r.Send("alice", "bob", later, func(d *orchestrator.Draft) { d.AckWithin = 5 * time.Minute })
	r.Clock.Advance(10 * time.Minute)
	r.Deliver()
	// Overdue.
	want.Rows(t, r.Rows(`SELECT count(*) FROM agent_message WHERE sender = 'system' AND message_type <> 'held'`), "0")
	let, n := r.letGo("alice", "bob")
	want.Equal(t, "let go", let, true)
	want.Equal(t, "messages", n, 2)
	r.Deliver()
	r.Take("bob") // the notice
	r.Clock.Advance(19 * time.Minute)
	r.Deliver()
	want.IDs(t, r.TakeFor("bob", 0))
	r.Clock.Advance(time.Minute)
	r.Deliver()
	want.IDs(t, r.TakeFor("bob", 0), before, during)
}

// An agent whose messages never wake it can be held like any other. Mentions and dead letters are held, too. A hold
// is released even if the clock was set back.
func TestHoldOfAllKinds(t *testing.T) {
	t.Parallel()
	r := talking(t)
	r.wants("bob", "never")
	r.event(hosts.Stopped)
	thread := r.Thread("alice", "bob")
	if _, _, err := r.hold("alice", "bob"); err != nil {
		t.Fatal(err)
	}
	r.Deliver()
	r.Take("bob")
	r.MustPost(thread.ID, "alice", "bob")
	dead := r.Send("alice", "bob")
	r.SQL(`UPDATE agent_message SET status = 'failed', traced_status = 'failed', next_attempt_at = '', not_before = '' WHERE message_id = ?`, dead)
	if _, err := messages.Replay(t.Context(), r.Ledger, dead, ""); err != nil {
		t.Fatal(err)
	}
	r.Deliver()
	want.IDs(t, r.TakeFor("bob", 0))
	r.held(2)
	r.Clock.Advance(-5 * time.Hour)
	let, n := r.letGo("alice", "bob")
	want.Equal(t, "let go", let, true)
	want.Equal(t, "messages", n, 2)
	r.Deliver()
	want.Equal(t, "messages to bob", len(r.TakeFor("bob", 0)), 2)
}

// A row inserted with SQL is held like a sent message, and keeps its time of delivery.
func TestHoldOfPlainRows(t *testing.T) {
	t.Parallel()
	r := talking(t)
	if _, _, err := r.hold("alice", "bob"); err != nil {
		t.Fatal(err)
	}
	r.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, not_before) VALUES ('now', 'alice', 'bob', '1', ''),
		('later', 'bob', 'alice', '1', ?), ('much-later', 'bob', 'alice', '1', ?)`,
		orchestrator.Stamp(r.Clock.Now().Add(10*time.Minute)), orchestrator.Stamp(r.Clock.Now().Add(2*time.Hour)))
	r.Deliver()
	r.Take("bob") // the notices
	r.Take("alice")
	r.Clock.Advance(5 * time.Minute)
	r.Deliver()
	want.IDs(t, r.TakeFor("bob", 0))
	_, n := r.letGo("alice", "bob")
	want.Equal(t, "messages", n, 2)
	r.Deliver()
	want.IDs(t, r.TakeFor("bob", 0), "now")
	want.IDs(t, r.TakeFor("alice", 0))
	r.Clock.Advance(5 * time.Minute)
	r.Deliver()
	want.IDs(t, r.TakeFor("alice", 0), "later")
	r.Clock.Advance(2 * time.Hour)
	r.Deliver()
	want.IDs(t, r.TakeFor("alice", 0), "much-later")
}
