package messages_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
)

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "architect", Recipient: "bilder"})
	want.Code(t, err, orchestrator.UnknownRecipient)
	if !strings.Contains(err.Error(), "Did you mean builder?") {
		// and not the group builders, which does not exist yet
		t.Errorf("no suggestion in %q", err)
	}
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "builders", []string{"builder"}); err != nil {
		t.Fatal(err)
	}
	_, err = messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "architect", Recipient: "bilder"})
	if err == nil || !strings.Contains(err.Error(), "Did you mean builder or builders?") {
		t.Errorf("no suggestion of the group in %q", err)
	}
	_, err = messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "arkitect", Recipient: "builder"})
	want.Code(t, err, orchestrator.UnknownSender)
	want.Rows(t, f.Rows(`SELECT recipient, status FROM dead_letter ORDER BY message_id`), "bilder failed",
		"bilder failed", "builder failed")
	var e *orchestrator.Error
	if !errors.As(err, &e) || len(f.Rows(`SELECT 1 FROM dead_letter WHERE message_id = ?`, e.MessageID)) != 1 {
		t.Errorf("%v does not name the dead letter", err)
	}
	want.Equal(t, "delivered", f.Deliver().Delivered, 0)
}

// TestReplayOfAnUnknownSender checks that a message that was refused because of its sender is not replayed before the
// name exists. It does not prevent the replay of others.
func TestReplayOfAnUnknownSender(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	refused := func(sender, recipient string) string {
		t.Helper()
		_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: sender, Recipient: recipient})
		var e *orchestrator.Error
		if !errors.As(err, &e) {
			t.Fatalf("sent from %s to %s: %v", sender, recipient, err)
		}
		return e.MessageID
	}
	ghost, late := refused("ghost", "builder"), refused("architect", "late")
	_, err := messages.Replay(t.Context(), f.Ledger, ghost, "")
	want.Code(t, err, orchestrator.UnknownSender)
	if !strings.Contains(err.Error(), `unknown agent "ghost"`) ||
		!strings.Contains(err.Error(), "mailroom agent add ghost") {
		t.Error(err)
	}
	reasons, err := overview.Why(t.Context(), f.Ledger, ghost)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "fix", reasons[0].Fix,
		"To add the agent, run `mailroom agent add ghost`. Then run `mailroom dead_letters replay "+ghost+"`")
	f.Add(agents.Update{Name: "late"})
	replayed, skipped, err := messages.ReplayAll(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 1})
	if err != nil || skipped != 0 || len(replayed) != 1 || replayed[0].ID != late {
		t.Errorf("replayed %v, skipped %d, %v", replayed, skipped, err)
	}
	replayed, skipped, err = messages.ReplayAll(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 9})
	if err != nil || skipped != 1 || len(replayed) != 0 {
		t.Errorf("then replayed %v, skipped %d, %v", replayed, skipped, err)
	}
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)

	f.Add(agents.Update{Name: "ghost"})
	if _, err := messages.Replay(t.Context(), f.Ledger, ghost, ""); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
}

func TestHoldUnknown(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	id := f.Send("architect", "later", func(d *orchestrator.Draft) { d.HoldUnknown = true })
	f.Deliver()
	want.Equal(t, "held", f.Message(id).Held, true)
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Pending)
	f.Add(agents.Update{Name: "later"})
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, id), "created", "held",
		"released", "delivered")
}

func TestGroups(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "builders", []string{"b", "c", "b"}); err != nil {
		t.Fatal(err)
	}
	sent, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "Builders"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sent.Recipients, []string{"b", "c"}) || sent.MulticastID == "" || len(sent.MessageIDs) != 2 {
		t.Errorf("sent %+v", sent)
	}
	everyone, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "all"})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "recipients of all", len(everyone.Recipients), 3)
	_, err = messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "council"})
	want.Code(t, err, orchestrator.InvalidParams)
	want.Equal(t, "delivered", f.Deliver().Delivered, 4) // the sender has its copy already
	cancelled, err := messages.Cancel(t.Context(), f.Ledger, sent.MulticastID, "a")
	want.Code(t, err, orchestrator.Conflict)
	want.Equal(t, "cancelled", len(cancelled), 0)
}

// TestOwnCopyThatIsDropped checks that a sender's own copy is delivered later if a trigger keeps it out of the inbox.
func TestOwnCopyThatIsDropped(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Drop("agent_inbox", "NEW.recipient = 'a'")
	if _, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "all"}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT recipient, status FROM agent_message ORDER BY recipient`), "a pending", "b pending")
}

// TestOwnCopies checks that a sender's own copy of a message to a group is delivered and read from the start. It is
// kept, but not shown to anybody. A message that an agent sends to itself by name is ordinary mail.
func TestOwnCopies(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "pair", []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	role := "builder"
	f.Add(agents.Update{Name: "a", Role: &role})
	own := func(sent orchestrator.Sent) orchestrator.Message {
		t.Helper()
		ms, err := messages.Find(t.Context(), f.Ledger, sent.MessageIDs[slices.Index(sent.Recipients, "a")])
		if err != nil {
			t.Fatal(err)
		}
		return ms[0]
	}
	for i, d := range []orchestrator.Draft{
		{Recipient: "all"}, {Recipient: "pair"}, {Recipient: "role:builder"}, {Recipient: "all", AckWithin: time.Hour},
		{Recipient: "all", NotBefore: f.Clock.Now().Add(time.Hour)}, {Recipient: "all", TTL: time.Minute},
	} {
		d.Sender = "a"
		sent, err := messages.Send(t.Context(), f.Ledger, d)
		if err != nil {
			t.Fatal(err)
		}
		m := own(sent)
		if m.Status != orchestrator.Delivered || m.ReadAt == "" || !m.IsOwnCopy() {
			t.Errorf("draft %d: %+v", i, m)
		}
		receipts, err := messages.Receipts(t.Context(), f.Ledger, []orchestrator.Message{m})
		if err != nil || slices.ContainsFunc(receipts[0], func(r messages.Receipt) bool { return r.What == "read" }) {
			t.Errorf("draft %d: receipts %+v, %v", i, receipts, err)
		}
	}
	said, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "b", Recipient: "all"})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "all", ReplyTo: own(said).ID})
	if err != nil || own(reply).ReadAt == "" {
		t.Errorf("an answer: %v", err)
	}
	_, released, err := messages.Release(t.Context(), f.Ledger, own(reply).ID, "a")
	if want.Code(t, err, orchestrator.Conflict); released {
		t.Error("a sender's own copy was handed back")
	}
	f.AddWired("w")
	wired, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "w", Recipient: "all"})
	if err != nil {
		t.Fatal(err)
	}
	if m := f.Message(wired.MessageIDs[slices.Index(wired.Recipients, "w")]); m.Status != orchestrator.Pending ||
		m.ReadAt != "" {
		t.Errorf("the copy of a sender behind another transport: %+v", m)
	}
	f.Clock.Advance(2 * time.Hour)
	f.Deliver()
	if _, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "a", Payload: []byte(`"a reminder"`)}); err != nil {
		t.Fatal(err)
	}
	got, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].Sender == "a" && got[i].Group != "" {
			t.Errorf("shown: %+v", got[i])
		}
	}
	want.Equal(t, "messages for a", len(got), 5) // those of b and w, the reminder, and reports that b has not acknowledged one and has not read another
	wrong, err := ledger.ReadValue(t.Context(), f.Ledger, ledger.Miscounted)
	if err != nil || len(wrong) > 0 {
		t.Errorf("miscounted: %v, %v", wrong, err)
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	draft := orchestrator.Draft{Sender: "a", Recipient: "b", Type: "x", Payload: []byte(`{"n": 1}`),
		IdempotencyKey: "k"}
	first, err := messages.Send(t.Context(), f.Ledger, draft)
	if err != nil {
		t.Fatal(err)
	}
	draft.Payload = []byte(`{"n":1}`) // the same content in another form
	again, err := messages.Send(t.Context(), f.Ledger, draft)
	if err != nil || again.MessageID != first.MessageID || !again.Idempotent {
		t.Fatalf("repeat: %+v %v", again, err)
	}
	draft.Payload = []byte(`{"n":2}`)
	_, err = messages.Send(t.Context(), f.Ledger, draft)
	want.Code(t, err, orchestrator.Conflict)
	draft.Recipient, draft.IdempotencyKey = "nobody", "fresh"
	_, err = messages.Send(t.Context(), f.Ledger, draft)
	want.Code(t, err, orchestrator.UnknownRecipient)
	draft.Recipient = "b" // a refused send has not used up its key
	if sent, err := messages.Send(t.Context(), f.Ledger, draft); err != nil || sent.Idempotent {
		t.Errorf("after a refusal: %+v %v", sent, err)
	}
}

// TestIdempotencyKeysOfTwoSenders checks that a key belongs to its sender: others may use the same key for their
// messages.
func TestIdempotencyKeysOfTwoSenders(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	var ids []string
	for _, sender := range []string{"a", "c", "a", "c"} {
		sent, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: sender, Recipient: "b", IdempotencyKey: "k"})
		if err != nil {
			t.Fatalf("%s: %v", sender, err)
		}
		ids = append(ids, sent.MessageID)
	}
	want.Equal(t, "sent by a again", ids[2], ids[0])
	want.Equal(t, "sent by c again", ids[3], ids[1])
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message ORDER BY seq`), ids[:2]...)
}

// TestIdempotencyAcrossSessions checks that a repetition may come from another session than the first send, unless
// the sender named the session, which is then part of the content.
func TestIdempotencyAcrossSessions(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	draft := orchestrator.Draft{Sender: "a", Recipient: "b", SessionID: "one", IdempotencyKey: "k"}
	if _, err := messages.Send(t.Context(), f.Ledger, draft); err != nil {
		t.Fatal(err)
	}
	draft.SessionID = "two"
	if sent, err := messages.Send(t.Context(), f.Ledger, draft); err != nil || !sent.Idempotent {
		t.Errorf("a repeat from another session: %+v, %v", sent, err)
	}
	draft.SessionNamed = true
	_, err := messages.Send(t.Context(), f.Ledger, draft)
	want.Code(t, err, orchestrator.Conflict)
	draft.IdempotencyKey = "named"
	if _, err := messages.Send(t.Context(), f.Ledger, draft); err != nil {
		t.Fatal(err)
	}
	draft.SessionID = "one"
	_, err = messages.Send(t.Context(), f.Ledger, draft)
	want.Code(t, err, orchestrator.Conflict)
}

// TestIdempotencyOfEarlierVersions checks that hashes stored by earlier versions still distinguish a repetition from
// another message.
func TestIdempotencyOfEarlierVersions(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	for hash, d := range map[string]orchestrator.Draft{
		"e2a29bce44c3052246681849b1ade10782af02b57d2fc7fc4799870eb91c34a5": {
			Type: "STATUS", Payload: []byte(`{"message":"once"}`), Priority: 1, SessionID: "default",
			IdempotencyKey: "k",
		},
		"f1e2e7fe945234b5c577d17441502ca08dbe1dd852c8af003b915e8d3d2aaae7": {
			Type: "t", Payload: []byte(`{"n":1.10,"s":"<&>"}`), MaxRetries: new(3), Priority: 2, TTL: time.Hour,
			IdempotencyKey: "k",
			ReplyTo:        "r", Summary: "su", Context: "co", Action: "interrupt", ThreadID: "th", SessionID: "se",
			SessionNamed: true,
			AckWithin:    time.Minute, HoldUnknown: true,
		},
	} {
		d.Sender, d.Recipient = "a", "b"
		f.SQL(`INSERT INTO idempotency (sender, key, params_hash, result, created_at)
			VALUES ('a', 'k', ?, '{"MessageID":"before"}', '')
			ON CONFLICT (sender, key) DO UPDATE SET params_hash = excluded.params_hash, result = excluded.result`, hash)
		if sent, err := messages.Send(t.Context(), f.Ledger, d); err != nil || sent.MessageID != "before" {
			t.Errorf("%+v: %+v, %v", d, sent, err)
		}
		d.Context += "x"
		_, err := messages.Send(t.Context(), f.Ledger, d)
		want.Code(t, err, orchestrator.Conflict)
	}
}

// TestIdempotencyAtOnce checks that fifty concurrent sends with one key, over two connections, create one message.
func TestIdempotencyAtOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	routers := []*delivery.Engine{f.Engine, f.Open()}
	ids := make([]string, 50)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			sent, err := messages.Send(t.Context(), routers[i%2].Ledger,
				orchestrator.Draft{Sender: "a", Recipient: "b", IdempotencyKey: "k"})
			if err != nil {
				t.Error(err)
			}
			ids[i] = sent.MessageID
		})
	}
	wg.Wait()
	slices.Sort(ids)
	want.Equal(t, "different ids", len(slices.Compact(ids)), 1)
	want.Equal(t, "rows", len(f.Rows(`SELECT 1 FROM agent_message`)), 1)
}

func TestHopsEndALoop(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Set("hops.limit", "3")
	id := f.Send("a", "b")
	for range 3 {
		id = f.Send("b", "a", func(d *orchestrator.Draft) { d.ReplyTo = id })
	}
	_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b", ReplyTo: id})
	want.Code(t, err, orchestrator.Conflict)
	_, err = messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b", ReplyTo: "msg-none"})
	want.Code(t, err, orchestrator.NotFound)
}

func TestBacklogLimit(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Set("backlog.limit", "2")
	f.Send("a", "b")
	f.Send("a", "b")
	_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b"})
	want.Code(t, err, orchestrator.Unavailable)
	want.Equal(t, "rows", len(f.Rows(`SELECT 1 FROM agent_message`)), 2)
	f.Deliver()
	_, err = messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b"})
	want.Code(t, err, orchestrator.Unavailable) // delivered, but not read
	f.Send("a", "a")
	f.Send("a", "a")
	f.Take("b")
	f.Send("a", "all") // its own copy does not count
}

func TestBatchAndAtomic(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	drafts := []orchestrator.Draft{
		{Sender: "a", Recipient: "b"}, {Sender: "a", Recipient: "nobody"},
		{Sender: "a", Recipient: "b", Payload: []byte("{")}, {Sender: "a", Recipient: "b"},
	}
	outs := messages.SendBatch(t.Context(), f.Ledger, drafts, false)
	for i, code := range []orchestrator.Code{"", orchestrator.UnknownRecipient, orchestrator.InvalidParams, ""} {
		if code == "" {
			want.Equal(t, fmt.Sprint("error ", i), outs[i].Refused, nil)
		} else {
			want.Code(t, outs[i].Refused, code)
		}
	}
	want.Equal(t, "sent", len(f.Rows(`SELECT 1 FROM agent_message WHERE status = 'pending'`)), 2)
	for _, bad := range []int{1, 2} {
		outs = messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{drafts[0], drafts[bad], drafts[3]}, true)
		for i, out := range outs {
			if out.Refused == nil {
				t.Errorf("atomic with draft %d: no error for element %d", bad, i)
			}
		}
	}
	want.Equal(t, "rows after atomic batches", len(f.Rows(`SELECT 1 FROM agent_message`)), 3)
}

func TestBadDrafts(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	ok := orchestrator.Draft{Sender: "a", Recipient: "b"}
	for name, change := range map[string]func(*orchestrator.Draft){
		"injection":     func(d *orchestrator.Draft) { d.Recipient = "x'; DROP TABLE agent_message" },
		"path":          func(d *orchestrator.Draft) { d.Recipient = "../x" },
		"long name":     func(d *orchestrator.Draft) { d.Sender = strings.Repeat("a", 1<<20) },
		"no JSON":       func(d *orchestrator.Draft) { d.Payload = []byte("hello") },
		"trailing JSON": func(d *orchestrator.Draft) { d.Payload = []byte("{} {}") },
		"too large":     func(d *orchestrator.Draft) { d.Payload = []byte(`"` + strings.Repeat("x", 1<<20) + `"`) },
		"invalid UTF-8": func(d *orchestrator.Draft) { d.Payload = []byte("\"\xff\"") },
		"NUL":           func(d *orchestrator.Draft) { d.Type = "a\x00b" },
		"long type":     func(d *orchestrator.Draft) { d.Type = strings.Repeat("t", 65) },
		"priority":      func(d *orchestrator.Draft) { d.Priority = 10 },
		"ttl":           func(d *orchestrator.Draft) { d.TTL = 31 * 24 * 3600e9 },
		"action":        func(d *orchestrator.Draft) { d.Action = "shout" },
	} {
		d := ok
		change(&d)
		_, err := messages.Send(t.Context(), f.Ledger, d)
		if orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
	want.Equal(t, "rows", len(f.Rows(`SELECT 1 FROM agent_message`)), 0)
}

// TestStrangersLearnNothingOfAnID checks that for an id of a message that an agent neither sent nor received, the
// agent gets the same error as for an unknown id.
func TestStrangersLearnNothingOfAnID(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "pair", []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	group, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "pair", Type: "note"})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{f.Send("a", "b"), group.MessageID, group.MessageIDs[1]}
	f.Deliver()
	ids = append(ids, f.Send("b", "a"))
	for name, ask := range map[string]func(id string) error{
		"acknowledge": func(id string) error {
			_, err := messages.Acknowledge(t.Context(), f.Ledger, id,
				"c")
			return err
		},
		"cancel": func(id string) error { _, err := messages.Cancel(t.Context(), f.Ledger, id, "c"); return err },
		"release": func(id string) error {
			_, _, err := messages.Release(t.Context(), f.Ledger, id,
				"c")
			return err
		},
		"wait": func(id string) error {
			_, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "c", Limit: 1, ReplyTo: id})
			return err
		},
	} {
		nothing := ask("msg-none")
		want.Code(t, nothing, orchestrator.NotFound)
		for _, id := range ids {
			var e *orchestrator.Error
			if !errors.As(ask(id), &e) || e.Code != orchestrator.NotFound ||
				strings.ReplaceAll(e.Error(), id, "msg-none") != nothing.Error() {
				t.Errorf("%s of a stranger: %v; of what is not there: %v", name, e, nothing)
			}
		}
	}
	m, err := messages.Acknowledge(t.Context(), f.Ledger, group.MessageID, "b")
	if err != nil || m.Recipient != "b" {
		t.Errorf("a member acknowledges what the group was sent: %+v, %v", m, err)
	}
}

func TestCancelAndAcknowledge(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	_, err := messages.Cancel(t.Context(), f.Ledger, id, "b")
	want.Code(t, err, orchestrator.PermissionDenied)
	_, err = messages.Acknowledge(t.Context(), f.Ledger, id, "b")
	want.Code(t, err, orchestrator.Conflict)
	if _, err := messages.Cancel(t.Context(), f.Ledger, id, "a"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "delivered", f.Deliver().Delivered, 0)
	second := f.Send("a", "b")
	f.Deliver()
	_, err = messages.Cancel(t.Context(), f.Ledger, second, "a")
	want.Code(t, err, orchestrator.Conflict)
	_, err = messages.Acknowledge(t.Context(), f.Ledger, second, "a")
	want.Code(t, err, orchestrator.PermissionDenied)
	m, err := messages.Acknowledge(t.Context(), f.Ledger, second, "b")
	if err != nil || m.ReadAt == "" {
		t.Fatalf("%+v %v", m, err)
	}
	again, err := messages.Acknowledge(t.Context(), f.Ledger, second, "b")
	if err != nil || again.AcknowledgedAt != m.AcknowledgedAt {
		t.Errorf("again: %+v %v", again, err)
	}
	want.Equal(t, "acknowledged events", len(f.Rows(`SELECT 1 FROM message_trace WHERE event = 'acknowledged'`)), 1)
	_, err = messages.Cancel(t.Context(), f.Ledger, "msg-none", "")
	want.Code(t, err, orchestrator.NotFound)
}
