package router_test

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
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
)

// errGone is what a webhook answers with 410.
var errGone = fmt.Errorf("410 Gone: %w", orchestrator.ErrGone)

// goneFixture has an agent b whose address is gone, and an administrator.
func goneFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, "a", "c", "boss", "second")
	f.addWired("b")
	for _, admin := range []string{"boss", "boss", "second"} { // two tokens make no second note
		if _, _, err := agents.IssueToken(t.Context(), f.Ledger, admin, true, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := agents.IssueToken(t.Context(), f.Ledger, "c", false, 0); err != nil {
		t.Fatal(err)
	}
	f.wire.set(refusing(errGone))
	return f
}

func (f *fixture) agent(name string) ledger.Agent {
	f.t.Helper()
	list, err := agents.List(f.t.Context(), f.Ledger)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, a := range list {
		if a.Name == name {
			return a
		}
	}
	f.t.Fatalf("nobody is called %s", name)
	return ledger.Agent{}
}

// An agent whose address is gone is disabled after one attempt. Its messages wait, however many there are and will be: none
// fails, none climbs the ladder. With another transport they arrive, in order.
func TestGoneLosesNothing(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	attempts := 0
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		attempts++
		return []error{errGone}
	})
	var sent []string
	for range 5 {
		sent = append(sent, f.send("a", "b"))
	}
	d := f.deliver()
	want(t, "failed", d.Failed, 0)
	want(t, "disabled", fmt.Sprint(d.Disabled), "[b]")
	want(t, "attempts", attempts, 1)
	if a := f.agent("b"); !strings.Contains(a.Disabled, "410 Gone") || !strings.HasPrefix(a.Disabled, "2026-01-02T03:04:05.000Z ") {
		t.Errorf("disabled: %q", a.Disabled)
	}
	for range 100 {
		f.clock.advance(time.Minute)
		sent = append(sent, f.send("a", "b"))
		want(t, "failed", f.deliver().Failed, 0)
	}
	want(t, "attempts while disabled", attempts, 1)
	wantRows(t, f.rows(`SELECT status, held, retry_count, crashes, lease_token, count(*) FROM agent_message WHERE recipient = 'b' GROUP BY 1, 2, 3, 4, 5`),
		"pending 0 0 0  105")
	f.wire.set(nil)
	f.addWired("b") // the same address: somebody says that it works again
	want(t, "disabled", f.agent("b").Disabled, "")
	f.deliver()
	if got := f.wire.ids(); !slices.Equal(got, sent) {
		t.Errorf("arrived as %v; want %v", got, sent)
	}
}

// Nobody looks at the messages of a disabled agent again and again: with the clock going and runs every second, nothing is
// written.
func TestGoneDoesNotSpin(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	for range 10 {
		f.send("a", "b")
		f.send("c", "b")
	}
	f.deliver()
	f.deliver()
	if _, err := delivery.Poll(t.Context(), f.Ledger, "b", 1); err != nil {
		t.Fatal(err)
	}
	conn, err := openPlain(t, f.path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	version := func() (n int) {
		if err := conn.QueryRowContext(t.Context(), `PRAGMA data_version`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	events := f.rows(`SELECT max(id) FROM message_trace`)
	before := version()
	for range 250 { // less than the five minutes after which they are overdue
		f.clock.advance(time.Second)
		f.deliver()
	}
	want(t, "version of the data after 250 runs", version(), before)
	wantRows(t, f.rows(`SELECT max(id) FROM message_trace`), events...)
	f.send("a", "b")
	f.deliver()
	after := version()
	f.deliver()
	want(t, "version of the data once there is a new message", version(), after)
}

// What waits for another address is not planned: a daemon would be woken for it every second, and late for everybody else.
func TestGoneIsNotPlanned(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	retried, late := f.send("a", "b"), f.send("c", "b")
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		return []error{map[string]error{retried: errors.New("down"), late: errLater}[a.Messages[0].ID]}
	})
	f.deliver()
	f.clock.advance(30 * time.Second)
	f.wire.set(refusing(errGone))
	f.deliver()
	f.deliver()
	wantRows(t, f.rows(`SELECT status, next_attempt_at <> '' FROM agent_message WHERE recipient = 'b' ORDER BY seq`), "retry 1", "pending 1")
	state, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if now := f.clock.now().Format("2006-01-02T15:04:05.000Z"); state.NextDueAt <= now {
		t.Errorf("at %s the next thing due is planned for %s", now, state.NextDueAt)
	}
}

// The administrators are told once, whatever comes afterwards; nobody else is.
func TestGoneIsToldOnce(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	notes := func() []string {
		return f.rows(`SELECT recipient, sender, message_type, json_extract(payload, '$.payload.agent') FROM agent_message WHERE sender = 'system' ORDER BY seq`)
	}
	for range 5 {
		f.send("a", "b")
		f.send("c", "b")
		f.deliver()
		f.clock.advance(time.Minute)
	}
	wantRows(t, notes(), "boss system transport_disabled b", "second system transport_disabled b")
	f.addWired("b") // and it is gone again
	f.deliver()
	want(t, "notes after it went a second time", len(notes()), 4)
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "boss", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) != 2 || !strings.Contains(string(ms[0].Payload), "410 Gone") || !strings.Contains(string(ms[0].Payload), "agent add b --deliver") {
		t.Errorf("the administrator reads %v", ms)
	}
}

// An update that names no transport leaves a disabled one disabled; one that does releases the messages.
func TestGoneIsReleasedByATransport(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	id := f.send("a", "b")
	f.deliver()
	f.deliver()
	role := "reader"
	f.add(agents.Update{Name: "b", Role: &role})
	if f.agent("b").Disabled == "" {
		t.Error("an update of the role enables the transport")
	}
	want(t, "delivered", f.deliver().Delivered, 0)
	inbox := "inbox"
	f.add(agents.Update{Name: "b", Deliver: &inbox})
	want(t, "delivered", f.deliver().Delivered, 1)
	m := f.message(id)
	want(t, "status", m.Status, orchestrator.Delivered)
	want(t, "retry_count", m.RetryCount, 0)
}

// A fallback takes what a gone address does not: the message of the attempt itself and all that follow. A fallback that
// fails puts them on the ladder.
func TestGoneUsesTheFallback(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	folder := t.TempDir() + "/later"
	target, fallback := "wire:b", "jsonl:"+folder+"/b.jsonl"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	f.add(agents.Update{Name: "b", Deliver: &target, Fallback: &fallback})
	sent := []string{f.send("a", "b"), f.send("a", "b")}
	f.deliver()
	for _, id := range sent {
		want(t, "status", f.message(id).Status, orchestrator.Delivered)
	}
	if f.agent("b").Disabled == "" {
		t.Error("the transport is not disabled")
	}
	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	third := f.send("a", "b")
	want(t, "failed without the folder of the fallback", f.deliver().Failed, 1)
	want(t, "status", f.message(third).Status, orchestrator.Retry)
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(30 * time.Second)
	want(t, "delivered", f.deliver().Delivered, 1)
	if len(f.wire.ids()) > 0 {
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
	want(t, "administrators told", len(f.rows(`SELECT 1 FROM agent_message WHERE message_type = 'transport_disabled'`)), 2)
}

// An answer that comes after the agent has got another transport disables nothing.
func TestGoneOfAnEarlierTransport(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	id := f.send("a", "b")
	f.wire.set(func(_ context.Context, a orchestrator.Attempt) []error {
		f.wire.set(nil)
		target := "wire:elsewhere"
		f.add(agents.Update{Name: "b", Deliver: &target})
		return []error{errGone}
	})
	f.deliver()
	want(t, "disabled", f.agent("b").Disabled, "")
	want(t, "status", f.message(id).Status, orchestrator.Delivered)
}

// What is held for a disabled agent can be cancelled, ends with its time, and is there for the agent that reads by itself.
func TestGoneMessagesCanEnd(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	short := f.send("a", "b", func(d *orchestrator.Draft) { d.TTL = time.Minute })
	taken, read := f.send("a", "b"), f.send("a", "b")
	f.deliver()
	f.deliver()
	if _, err := messages.Cancel(t.Context(), f.Ledger, taken, "a"); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(2 * time.Minute)
	f.deliver()
	want(t, "status of one whose time has passed", f.message(short).Status, orchestrator.Lapsed)
	want(t, "status of one taken back", f.message(taken).Status, orchestrator.Cancelled)
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) != 1 || ms[0].ID != read {
		t.Errorf("the agent reads %v; want %s", ms, read)
	}
}

// Of a batch, what arrived before the address was found to be gone is settled as delivered, and what failed as failed.
func TestGoneInABatch(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	f.wire.batch = 3
	ids := []string{f.send("a", "b"), f.send("a", "b"), f.send("a", "b")}
	f.wire.set(func(context.Context, orchestrator.Attempt) []error {
		return []error{nil, errors.New("garbled"), errGone}
	})
	f.deliver()
	f.clock.advance(time.Hour)
	f.deliver()
	wantRows(t, f.rows(`SELECT status, held, retry_count FROM agent_message WHERE message_id IN (?, ?, ?) ORDER BY seq`, ids[0], ids[1], ids[2]),
		"delivered 0 0", "retry 0 0", "pending 0 0")
}

// A fallback that a disabled agent gets takes all that waits, in order.
func TestGoneThenAFallback(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	first := f.send("a", "b")
	f.deliver()
	second := f.send("a", "b")
	f.deliver()
	path := filepath.Join(t.TempDir(), "fallback.jsonl")
	f.add(agents.Update{Name: "b", Fallback: new("jsonl:" + path)})
	third := f.send("a", "b")
	want(t, "delivered", f.deliver().Delivered, 3)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := []int{bytes.Index(text, []byte(first)), bytes.Index(text, []byte(second)), bytes.Index(text, []byte(third))}
	if at[0] < 0 || !slices.IsSorted(at) {
		t.Errorf("in the fallback, at %v:\n%s", at, text)
	}
}

// Nobody makes a delivery run for messages that must wait for one that was put off.
func TestPutOffDoesNotSpin(t *testing.T) {
	t.Parallel()
	f := goneFixture(t)
	f.wire.set(func(context.Context, orchestrator.Attempt) []error { return []error{orchestrator.ErrTryLater} })
	for range 3 {
		f.send("a", "b")
	}
	f.deliver()
	ran := false
	stop := f.Watch(func(_, table string) { ran = ran || table == "message_trace" }) // every write transaction looks for the last event
	defer stop()
	for range 29 {
		f.clock.advance(time.Second)
		f.deliver()
	}
	want(t, "a run is made before the wait is over", ran, false)
	f.clock.advance(time.Second)
	f.deliver()
	want(t, "a run is made when it is over", ran, true)
}
