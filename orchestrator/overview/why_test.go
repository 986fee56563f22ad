package overview_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/retention"
)

// TestWhyOfAStatusByHand checks that a message whose status was written by hand is not reported as being with its
// recipient, and that the statement in the advice of why gets it delivered.
func TestWhyOfAStatusByHand(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"inbox", "wire:b"} {
		f := enginetest.New(t, "a")
		f.Add(agents.Update{Name: "b", Deliver: &target})
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status)
			VALUES ('m', 'a', 'b', '1', 'delivered')`)
		says := func(when string) overview.Reason {
			t.Helper()
			why := f.Why("m")
			if why.Where != "in agent_message only" || !strings.HasPrefix(why.Rule, "Mailroom has not delivered it") ||
				why.Attempts != 0 {
				t.Errorf("%s, %s: %+v", target, when, why)
			}
			return why
		}
		says("not adopted yet")
		f.Deliver()
		why := says("adopted")
		f.SQL(enginetest.Statement(why.Fix))
		f.Deliver()
		if why := f.Why("m"); strings.HasPrefix(why.Rule, "Mailroom has not delivered it") || why.Attempts != 1 {
			t.Errorf("%s, delivered: %+v", target, why)
		}
		arrived := f.Wire.IDs()
		if target == "inbox" {
			arrived = f.Rows(`SELECT message_id FROM agent_inbox WHERE recipient = 'b'`)
		}
		want.Rows(t, arrived, "m")
	}
}

// TestWhyOfAStatusByHandThatIsAcknowledged checks that an agent that acknowledged a message has it, however it was
// delivered.
func TestWhyOfAStatusByHandThatIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status)
		VALUES ('m', 'a', 'b', '1', 'delivered')`)
	f.Deliver()
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, "m", "b"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "what helps", f.Why("m").Fix, "")
}

// TestWhyOfAStatusByHandInTheArchive checks that an archived message that was never delivered can only be sent again.
func TestWhyOfAStatusByHandInTheArchive(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status)
		VALUES ('m', 'a', 'b', '1', 'delivered')`)
	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	why := f.Why("m")
	want.Equal(t, "where", why.Where, "in agent_message_archive only")
	want.Equal(t, "what helps", why.Fix, "If the message is still needed, send it again")
}

// TestWhyLooksIntoTheInbox checks that why reports a message in the inbox only if it is there.
func TestWhyLooksIntoTheInbox(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	taken, read := f.Send("a", "b"), f.Send("a", "b")
	f.Deliver()
	want.Equal(t, "what helps", f.Why(taken).Fix, "To read it, run `mailroom wait --recipient b`")
	if f.OnServer() {
		f.SQL(`UPDATE agent_inbox SET read_at = delivered_at WHERE message_id = ?`, read)
		f.SQL(`UPDATE agent_message SET read_at = delivered_at WHERE message_id = ?`, read)
	} else {
		f.ViewInboxes("b")
		f.SQL(`DELETE FROM b_inbox WHERE message_id = ?`, read)
	}
	want.Equal(t, "where it was read", f.Why(read).Where, "in the inbox of b")
	f.SQL(`DELETE FROM agent_inbox`)
	for id, rule := range map[string]string{taken: "delivered; no confirmation yet that it was read",
		read: "delivered and read, but not acknowledged"} {
		why := f.Why(id)
		want.Equal(t, "where", why.Where, "delivered to b but not, or no longer, in its inbox")
		want.Equal(t, "rule", why.Rule, rule)
		if strings.Contains(why.Fix, "wait") {
			t.Errorf("do: %s", why.Fix)
		}
	}
}

// A message held by hand is held only until an agent has the name; why explains what releases it.
func TestHeldByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "both", []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	const insert = `INSERT INTO agent_message (message_id, sender, recipient, payload, held) VALUES (?, 'a', ?, '1', ?)`
	f.SQL(insert, "known", " B ", 1)
	f.SQL(insert, "unknown", "c", 2)
	f.SQL(insert, "group", "both", 1)
	says := func(id, rule, fix string) {
		t.Helper()
		if why := f.Why(id); !strings.Contains(why.Rule, rule) || !strings.Contains(why.Fix, fix) {
			t.Errorf("why %s: %q, %q; want %q, %q", id, why.Rule, why.Fix, rule, fix)
		}
	}
	for _, when := range []string{"before", "after"} {
		if when == "before" {
			says("known", "it is due now", "mailroom deliver_all")
		}
		says("unknown", "it is held until you add an agent named c", "`mailroom agent add c`")
		if why := f.Why("group"); strings.Contains(why.Rule, "held") {
			t.Errorf("%s it is adopted, why of one to a group says %q", when, why.Rule)
		}
		f.Deliver()
	}
	want.Rows(t, f.Rows(`SELECT message_id, status, held FROM agent_message ORDER BY 1`), "group retry 0",
		"known delivered 0", "unknown pending 1")
	for _, held := range []int{1, 2} {
		id := f.Send("a", "b")
		f.SQL(`UPDATE agent_message SET held = ? WHERE message_id = ?`, held, id)
		f.Deliver()
		says(id, "somebody marked it as held with SQL", "`mailroom agent add b`")
		f.Add(agents.Update{Name: "b"})
		f.Deliver()
		want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
	}
}

// For a message whose time is over, why reports that it expires, before the run in which it does.
func TestWhyOfWhatIsOver(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	short := func(d *orchestrator.Draft) { d.TTL = time.Minute }
	unread := f.Send("a", "b", short)
	f.Deliver()
	sent, held := f.Send("a", "b", short), f.Send("a", "c", short, func(d *orchestrator.Draft) { d.HoldUnknown = true })
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, ttl_seconds, created_at)
		VALUES ('by hand', 'a', 'b', '1', 60, ?)`,
		f.Clock.Now().UTC().Format(time.RFC3339))
	f.Clock.Advance(time.Hour)
	for _, id := range []string{unread, sent, held, "by hand"} {
		if why := f.Why(id); !strings.Contains(why.Rule, "it expired at 2026-01-02T03:05:0") ||
			!strings.Contains(why.Fix, "dead_letters replay "+orchestrator.ShellWord(id)) {
			t.Errorf("why %s: %+v", id, why)
		}
	}
	f.Deliver()
	for _, id := range []string{unread, sent, held, "by hand"} {
		want.Equal(t, "status of "+id, f.Message(id).Status, orchestrator.Expired)
	}
}

// TestWhyOfARetry checks that for a message that will be retried, why names the transport that failed, and gives
// advice if no daemon runs.
func TestWhyOfARetry(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("w")
	f.Wire.Set(enginetest.Failing("down"))
	id := f.Send("a", "w")
	f.Deliver()
	if rule := f.Why(id).Rule; !strings.HasPrefix(rule, "1 attempt through wire:w failed") {
		t.Errorf("why: %s", rule)
	}
	want.Equal(t, "what helps without a daemon", f.Why(id).Fix,
		"Remove the cause. No daemon runs. Keep `mailroom serve` running, or run `mailroom deliver_all` when the message is due")
	if err := daemons.Beat(t.Context(), f.Ledger, ""); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "what helps with one", f.Why(id).Fix, "Remove the cause. A daemon makes the next attempt")
	later := f.Send("a", "w", func(d *orchestrator.Draft) { d.Delay = time.Hour })
	want.Equal(t, "of what is wanted later", f.Why(later).Fix, "No action needed: a daemon delivers it when it is due. To cancel the message, run `mailroom cancel "+later+
		"`")
	if _, err := messages.Cancel(t.Context(), f.Ledger, later, ""); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "of what was taken back, by whomever", f.Why(later).Rule, "it was canceled before it was delivered")
}
