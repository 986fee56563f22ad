package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/traffic"
)

// goneFixture has an agent b whose address is gone, and administrators.
func goneFixture(t *testing.T) *enginetest.Fixture {
	t.Helper()
	f := enginetest.New(t, "a", "c", "boss", "second")
	f.AddWired("b")
	for _, admin := range []string{"boss", "boss", "second"} { // two tokens do not cause a second notification
		if _, _, err := agents.IssueToken(t.Context(), f.Ledger, admin, true, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := agents.IssueToken(t.Context(), f.Ledger, "c", false, 0); err != nil {
		t.Fatal(err)
	}
	f.Wire.Set(enginetest.Refusing(enginetest.ErrGone))
	return f
}

// TestGoneLosesNothing checks that an agent whose address is gone is disabled after one attempt. All its messages,
// present and future, wait: none fails, and none uses up a retry. With another transport they arrive in order.
func TestGoneLosesNothing(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	attempts := 0
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		attempts++
		return []error{enginetest.ErrGone}
	})
	var sent []string
	for range 5 {
		sent = append(sent, f.Send("a", "b"))
	}
	d := f.Deliver()
	want.Equal(t, "failed", d.Failed, 0)
	want.Equal(t, "disabled", fmt.Sprint(d.Disabled), "[b]")
	want.Equal(t, "attempts", attempts, 1)
	if a := f.Agent("b"); !strings.Contains(a.Disabled, "410 Gone") ||
		!strings.HasPrefix(a.Disabled, "2026-01-02T03:04:05.000Z ") {
		t.Errorf("disabled: %q", a.Disabled)
	}
	for range 100 {
		f.Clock.Advance(time.Minute)
		sent = append(sent, f.Send("a", "b"))
		want.Equal(t, "failed", f.Deliver().Failed, 0)
	}
	want.Equal(t, "attempts while disabled", attempts, 1)
	want.Rows(t, f.Rows(`SELECT status, held, retry_count, crashes, lease_token, count(*) FROM agent_message
		WHERE recipient = 'b' GROUP BY 1, 2, 3, 4, 5`),
		"pending 0 0 0  105")
	f.Wire.Set(nil)
	f.AddWired("b") // the same address: somebody confirms that it works again
	want.Equal(t, "disabled", f.Agent("b").Disabled, "")
	f.Deliver()
	if got := f.Wire.IDs(); !slices.Equal(got, sent) {
		t.Errorf("arrived as %v; want %v", got, sent)
	}
}

// TestGoneDoesNotSpin checks that the messages of a disabled agent are not examined repeatedly: with a running clock
// and a run every second, nothing is written.
func TestGoneDoesNotSpin(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	for range 10 {
		f.Send("a", "b")
		f.Send("c", "b")
	}
	f.Deliver()
	f.Deliver()
	if _, err := delivery.Poll(t.Context(), f.Ledger, "b", 1); err != nil {
		t.Fatal(err)
	}
	version := f.Version()
	if err := traffic.Count(t.Context(), f.Ledger); err != nil {
		// which happens once a minute if there were events
		t.Fatal(err)
	}
	events := f.Rows(`SELECT max(id) FROM message_trace`)
	before := version()
	for range 250 { // less than the five minutes after which they are overdue
		f.Clock.Advance(time.Second)
		f.Deliver()
	}
	want.Equal(t, "version of the data after 250 runs", version(), before)
	want.Rows(t, f.Rows(`SELECT max(id) FROM message_trace`), events...)
	f.Send("a", "b")
	f.Deliver()
	after := version()
	f.Deliver()
	want.Equal(t, "version of the data once there is a new message", version(), after)
}

// TestGoneIsNotPlanned checks that messages that wait for another address are not planned: they would wake a daemon
// every second, and delay its other wake-ups.
func TestGoneIsNotPlanned(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	retried, late := f.Send("a", "b"), f.Send("c", "b")
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		return []error{map[string]error{retried: errors.New("down"), late: enginetest.ErrLater}[a.Messages[0].ID]}
	})
	f.Deliver()
	f.Clock.Advance(30 * time.Second)
	f.Wire.Set(enginetest.Refusing(enginetest.ErrGone))
	f.Deliver()
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT status, next_attempt_at <> '' FROM agent_message WHERE recipient = 'b' ORDER BY seq`),
		"retry 1", "pending 1")
	state, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if now := f.Clock.Now().Format("2006-01-02T15:04:05.000Z"); state.NextDueAt <= now {
		t.Errorf("at %s the next thing due is planned for %s", now, state.NextDueAt)
	}
}

// TestGoneIsToldOnce checks that the administrators are notified once, whatever happens afterwards. Nobody else is
// notified, and neither is the operator because of a session of the console.
func TestGoneIsToldOnce(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	code, err := agents.IssueCode(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := agents.OpenSession(t.Context(), f.Ledger, code); err != nil {
		t.Fatal(err)
	}
	notes := func() []string {
		return f.Rows(`SELECT recipient, sender, message_type, json_extract(payload, '$.payload.agent')
			FROM agent_message WHERE sender = 'system' ORDER BY seq`)
	}
	for range 5 {
		f.Send("a", "b")
		f.Send("c", "b")
		f.Deliver()
		f.Clock.Advance(time.Minute)
	}
	want.Rows(t, notes(), "boss system transport_disabled b", "second system transport_disabled b")
	f.AddWired("b") // and the address is gone again
	f.Deliver()
	want.Equal(t, "notes after it went a second time", len(notes()), 4)
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "boss", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) != 2 || !strings.Contains(string(ms[0].Payload), "410 Gone") ||
		!strings.Contains(string(ms[0].Payload), "agent add b --deliver") {
		t.Errorf("the administrator reads %v", ms)
	}
}

// TestGoneIsReleasedByATransport checks that an update without a transport leaves a disabled agent disabled; an
// update with one releases its messages.
func TestGoneIsReleasedByATransport(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	id := f.Send("a", "b")
	f.Deliver()
	f.Deliver()
	role := "reader"
	f.Add(agents.Update{Name: "b", Role: &role})
	if f.Agent("b").Disabled == "" {
		t.Error("an update of the role enables the transport")
	}
	want.Equal(t, "delivered", f.Deliver().Delivered, 0)
	inbox := "inbox"
	f.Add(agents.Update{Name: "b", Deliver: &inbox})
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	m := f.Message(id)
	want.Equal(t, "status", m.Status, orchestrator.Delivered)
	want.Equal(t, "retry_count", m.RetryCount, 0)
}

// TestGoneUsesTheFallback checks that a fallback takes the messages that a gone address does not: the message of the
// attempt itself and all later ones. If the fallback fails, they are retried.
func TestGoneUsesTheFallback(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	folder := t.TempDir() + "/later"
	target, fallback := "wire:b", "jsonl:"+folder+"/b.jsonl"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	f.Add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	sent := []string{f.Send("a", "b"), f.Send("a", "b")}
	f.Deliver()
	for _, id := range sent {
		want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
	}
	if f.Agent("b").Disabled == "" {
		t.Error("the transport is not disabled")
	}
	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	third := f.Send("a", "b")
	want.Equal(t, "failed without the folder of the fallback", f.Deliver().Failed, 1)
	want.Equal(t, "status", f.Message(third).Status, orchestrator.Retry)
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(30 * time.Second)
	want.Equal(t, "delivered", f.Deliver().Delivered, 1)
	if len(f.Wire.IDs()) > 0 {
		t.Error("the gone address got something")
	}
	text, err := os.ReadFile(folder + "/b.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, id := range append(sent, third) {
		if len(lines) != 3 || !strings.Contains(lines[i], id) {
			t.Fatalf("the fallback has %q; want %s in line %d of 3", lines, id, i+1)
		}
	}
	want.Equal(t, "administrators told",
		len(f.Rows(`SELECT 1 FROM agent_message WHERE message_type = 'transport_disabled'`)), 2)
}

// TestGoneOfAnEarlierTransport checks that a result that arrives after the agent has got another transport disables
// nothing.
func TestGoneOfAnEarlierTransport(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	id := f.Send("a", "b")
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		f.Wire.Set(nil)
		target := "wire:elsewhere"
		f.Add(agents.Update{Name: "b", Deliver: &target})
		return []error{enginetest.ErrGone}
	})
	f.Deliver()
	want.Equal(t, "disabled", f.Agent("b").Disabled, "")
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
}

// TestGoneMessagesCanEnd checks that messages held for a disabled agent can be cancelled, can expire, and can be read
// by the agent itself.
func TestGoneMessagesCanEnd(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	short := f.Send("a", "b", func(d *orchestrator.Draft) { d.TTL = time.Minute })
	taken, read := f.Send("a", "b"), f.Send("a", "b")
	f.Deliver()
	f.Deliver()
	if _, err := messages.Cancel(t.Context(), f.Ledger, taken, "a"); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(2 * time.Minute)
	f.Deliver()
	want.Equal(t, "status of one whose time has passed", f.Message(short).Status, orchestrator.Expired)
	want.Equal(t, "status of one taken back", f.Message(taken).Status, orchestrator.Cancelled)
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) != 1 || ms[0].ID != read {
		t.Errorf("the agent reads %v; want %s", ms, read)
	}
}

// TestGoneInABatch checks that in a batch, messages that arrived before the address was found gone are settled as
// delivered, and failed ones as failed.
func TestGoneInABatch(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	f.Wire.Batch = 3
	ids := []string{f.Send("a", "b"), f.Send("a", "b"), f.Send("a", "b")}
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error {
		return []error{nil, errors.New("garbled"), enginetest.ErrGone}
	})
	f.Deliver()
	f.Clock.Advance(time.Hour)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT status, held, retry_count FROM agent_message WHERE message_id IN (?, ?, ?)
		ORDER BY seq`, ids[0], ids[1], ids[2]),
		"delivered 0 0", "retry 0 0", "pending 0 0")
}

// TestGoneThenAFallback checks that a fallback that is added to a disabled agent takes all waiting messages in order.
func TestGoneThenAFallback(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	first := f.Send("a", "b")
	f.Deliver()
	second := f.Send("a", "b")
	f.Deliver()
	path := filepath.Join(t.TempDir(), "fallback.jsonl")
	f.Add(agents.Update{Name: "b", Fallback: new("jsonl:" + path)})
	third := f.Send("a", "b")
	want.Equal(t, "delivered", f.Deliver().Delivered, 3)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := []int{bytes.Index(text, []byte(first)), bytes.Index(text, []byte(second)), bytes.Index(text, []byte(third))}
	if at[0] < 0 || !slices.IsSorted(at) {
		t.Errorf("in the fallback, at %v:\n%s", at, text)
	}
}

// TestDisabledByHand disables an agent by hand and enables it. It checks that the messages wait meanwhile, also those
// in an inbox, and that no run is made for them.
func TestDisabledByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "c")
	f.AddWired("b")
	f.Add(agents.Update{Name: "c", Fallback: new("jsonl:" + t.TempDir() + "/c.jsonl")})
	disable := func(name string, want bool) {
		t.Helper()
		if _, disabled, err := agents.Disable(t.Context(), f.Ledger,
			agents.Disabling{Agent: name, Why: "moves", By: "a"}); err != nil || disabled != want {
			t.Fatalf("%s: disabled: %t, %v", name, disabled, err)
		}
	}
	first := f.Send("a", "b")
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error { return []error{orchestrator.ErrTryLater} })
	f.Deliver() // it is postponed
	f.Wire.Set(nil)
	for _, name := range []string{"b", "c"} {
		disable(name, true)
		disable(name, false)
	}
	want.Equal(t, "why", f.Agent("b").Disabled, "2026-01-02T03:04:05.000Z it was disabled by a: moves")
	sent := []string{first, f.Send("a", "b"), f.Send("a", "b")}
	inbox := f.Send("a", "c")
	f.Clock.Advance(time.Minute)
	want.Equal(t, "delivered while disabled", f.Deliver().Delivered, 0)
	if next, err := delivery.NextDue(t.Context(), f.Ledger); err != nil || !next.After(f.Clock.Now()) {
		t.Errorf("the next run is planned for %s, %v", next, err)
	}
	if reasons, err := overview.Why(t.Context(), f.Ledger, inbox); err != nil ||
		!strings.Contains(reasons[0].Rule, "disabled by a: moves") {
		t.Errorf("%+v, %v", reasons, err)
	}
	for _, name := range []string{"b", "c", "c"} {
		if _, _, err := agents.Enable(t.Context(), f.Ledger, name); err != nil {
			t.Fatal(err)
		}
	}
	want.Equal(t, "delivered once enabled", f.Deliver().Delivered, 4)
	if got := f.Wire.IDs(); !slices.Equal(got, sent) {
		t.Errorf("arrived as %v; want %v", got, sent)
	}
	for _, name := range []string{"operator", "user"} {
		_, _, err := agents.Disable(t.Context(), f.Ledger, agents.Disabling{Agent: name})
		want.Code(t, err, orchestrator.InvalidParams)
	}
	_, _, err := agents.Enable(t.Context(), f.Ledger, "nobody")
	want.Code(t, err, orchestrator.NotFound)
	_, _, err = agents.Disable(t.Context(), f.Ledger, agents.Disabling{Agent: "b", Why: "two\nlines"})
	want.Code(t, err, orchestrator.InvalidParams)
}

// TestPutOffDoesNotSpin checks that no delivery run is made for messages that must wait for a postponed one.
func TestPutOffDoesNotSpin(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "only SQLite tells what statements read")
	f := goneFixture(t)
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error { return []error{orchestrator.ErrTryLater} })
	for range 3 {
		f.Send("a", "b")
	}
	f.Deliver()
	ran := false
	stop := f.Watch(func(_, table string) { ran = ran || table == "message_trace" }) // every write transaction reads the last event
	defer stop()
	f.Deliver()
	ran = false // the check for uncounted traffic also reads it once and prepares its statement
	for range 29 {
		f.Clock.Advance(time.Second)
		f.Deliver()
	}
	want.Equal(t, "a run is made before the wait is over", ran, false)
	f.Clock.Advance(time.Second)
	f.Deliver()
	want.Equal(t, "a run is made when it is over", ran, true)
}
