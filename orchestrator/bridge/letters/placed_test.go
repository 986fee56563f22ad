package letters_test

import (
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/retention"
)

// Letters that a transport has delivered are read repeatedly, in reading order, until they are acknowledged, even
// from the archive. Messages of other transports, or undelivered ones, are not read.
func TestReadLetters(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Set(enginetest.Marking)
	low, high := f.Send("a", "b"), f.Send("a", "b", func(d *orchestrator.Draft) { d.Priority = 2 })
	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	late := f.Send("a", "b")
	f.Deliver()
	f.Send("a", "b")
	read := func(what string, limit int, mark, wantMore bool, ids ...string) (fresh []orchestrator.Message) {
		t.Helper()
		in, err := letters.Read(t.Context(), f.Ledger,
			letters.Request{Agent: "b", Target: "wire:b", Limit: limit, Mark: mark})
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
	want.Equal(t, "marked by looking", len(read("looking", 2, false, true, high, low)), 0)
	want.Equal(t, "read so far", f.Message(high).ReadAt, "")
	first := read("reading", 2, true, true, high, low)
	want.Equal(t, "read first", len(first), 2)
	want.Equal(t, "before they were shown", f.Message(high).ReadAt+f.Message(low).ReadAt, "")
	written := func(ms []orchestrator.Message) {
		t.Helper()
		if err := letters.Written(t.Context(), f.Ledger, "b", ms); err != nil {
			t.Fatal(err)
		}
	}
	written(first)
	want.Equal(t, "after they were shown", f.Message(high).ReadAt != "" && f.Message(low).ReadAt != "", true)
	at := f.Message(high).ReadAt
	f.Clock.Advance(time.Second)
	written(first)
	want.Equal(t, "shown again", f.Message(high).ReadAt, at)
	want.Equal(t, "of all, read first", len(read("reading all", 3, true, false, high, low, late)), 1)
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, high, "b"); err != nil {
		t.Fatal(err)
	}
	read("after an acknowledgement", 3, false, false, low, late)
	in, err := letters.Read(t.Context(), f.Ledger,
		letters.Request{Agent: "b", Target: "wire:elsewhere", Limit: 3, Mark: true})
	if err != nil || len(in.Messages) != 0 {
		t.Errorf("through another target: %v, %v", in, err)
	}

	f.Add(agents.Update{Name: "b", SilentAfter: new(time.Minute)})
	heard := func() int { return len(f.Rows(`SELECT heard_at FROM heartbeats WHERE agent = 'b'`)) }
	read("looking", 1, false, true, low)
	want.Equal(t, "heard of when it looks", heard(), 0)
	written(read("reading", 1, true, true, low))
	want.Equal(t, "heard of when it has read", heard(), 1)
}
