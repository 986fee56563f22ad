package router_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// marking is a delivery that leaves a mark, as one into a folder does.
func marking(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	for i := range errs {
		errs[i] = a.Mark(ctx, `here, and not at "wire:elsewhere":`)
	}
	return errs
}

// What a transport has placed is read again and again, in the order of reading, until it is acknowledged, from the archive
// too. What another transport had placed, or nobody has, is not.
func TestReadLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	f.addWired("b")
	f.wire.set(marking)
	low, high := f.send("a", "b"), f.send("a", "b", func(d *orchestrator.Draft) { d.Priority = 2 })
	f.deliver()
	f.clock.advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	late := f.send("a", "b")
	f.deliver()
	f.send("a", "b")
	read := func(what string, limit int, mark, wantMore bool, ids ...string) (fresh []orchestrator.Message) {
		t.Helper()
		in, err := letters.Read(t.Context(), f.Ledger, letters.Request{Agent: "b", Target: "wire:b", Limit: limit, Mark: mark})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range in.Messages {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, ids) || in.More != wantMore {
			t.Errorf("%s: %q, more %t; want %q, %t", what, got, in.More, ids, wantMore)
		}
		return in.Fresh
	}
	want(t, "marked by looking", len(read("looking", 2, false, true, high, low)), 0)
	want(t, "read so far", f.message(high).ReadAt, "")
	first := read("reading", 2, true, true, high, low)
	want(t, "read first", len(first), 2)
	want(t, "of all, read first", len(read("reading all", 3, true, false, high, low, late)), 1)
	if err := reading.Unread(t.Context(), f.Ledger, first); err != nil {
		t.Fatal(err)
	}
	want(t, "after being unread", f.message(high).ReadAt+f.message(low).ReadAt, "")
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, high, "b"); err != nil {
		t.Fatal(err)
	}
	read("after an acknowledgement", 3, false, false, low, late)
	in, err := letters.Read(t.Context(), f.Ledger, letters.Request{Agent: "b", Target: "wire:elsewhere", Limit: 3, Mark: true})
	if err != nil || len(in.Messages) != 0 {
		t.Errorf("through another target: %v, %v", in, err)
	}

	f.add(agents.Update{Name: "b", SilentAfter: new(time.Minute)})
	heard := func() int { return len(f.rows(`SELECT heard_at FROM heartbeats WHERE agent = 'b'`)) }
	read("looking", 1, false, true, low)
	want(t, "heard of when it looks", heard(), 0)
	read("reading", 1, true, true, low)
	want(t, "heard of when it reads", heard(), 1)
}
