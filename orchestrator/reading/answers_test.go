package reading_test

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/threads"
)

// startWriter starts a process that serves as the Writer of leases. kill kills the process.
func startWriter(t *testing.T) (id process.ID, kill func()) {
	t.Helper()
	writer := exec.Command("sleep", "1000")
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		writer.Process.Kill()
		writer.Wait()
	}
	t.Cleanup(kill)
	return process.Of(writer.Process.Pid), kill
}

// handOut takes the unread messages of b for a writer.
func handOut(t *testing.T, f *enginetest.Fixture, writer process.ID, o reading.Options) ([]orchestrator.Message,
	messages.ReadingLease) {
	t.Helper()
	o.Recipient, o.Limit = "b", 10
	o.Lease.Holder, o.Lease.Writer = "read", writer
	ms, _, err := reading.Wait(t.Context(), f.Ledger, o)
	if err != nil {
		t.Fatal(err)
	}
	return ms, o.Lease
}

// TestReadWhenWritten checks that a message is not read before its answer was written, and that no other reader gets
// it in the meantime. If the writing process dies, the message is unread again, in its order. This holds for a
// message that was delivered earlier or by this reading, and for an inbox row that another program wrote.
func TestReadWhenWritten(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	first := f.Send("a", "b")
	f.Deliver()
	f.SQL(`INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('b', 'by-hand', '1')`)
	dead, kill := startWriter(t)
	ms, lost := handOut(t, f, dead, reading.Options{})
	want.IDs(t, ms, first, "by-hand")
	second := f.Send("a", "b")
	more, _ := handOut(t, f, dead, reading.Options{}) // the path for a waiter that gets a message that was just sent
	want.IDs(t, more, second)
	for _, id := range []string{first, second} {
		want.Equal(t, "read before it was written", f.Message(id).ReadAt, "")
	}
	want.IDs(t, f.TakeFor("b", 0))
	kill()

	self := process.Self()
	again, lease := handOut(t, f, self, reading.Options{})
	want.IDs(t, again, first, second, "by-hand")
	want.Rows(t, f.Rows(`SELECT DISTINCT error FROM message_trace WHERE event = 'released'`),
		fmt.Sprintf("read (process %d) ended before its answer was written; unread again", dead.PID))
	for range 2 { // the supposedly dead reader lives after all, and changes nothing
		if err := reading.Written(t.Context(), f.Ledger, ms, lost); err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "read by who has lost it", f.Message(first).ReadAt, "")
	}
	if err := reading.Written(t.Context(), f.Ledger, again, lease); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{first, second} {
		want.Equal(t, "read once it was written", f.Message(id).ReadAt != "", true)
		want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? AND event IN ('read','shown')`, id),
			"read")
	}
	want.Rows(t, f.Rows(`SELECT message_id FROM reading_lease`))
	want.IDs(t, f.TakeFor("b", 0))
}

// TestAnswerOvertaken checks that an answer that could not be written leaves its messages unread. An answer that was
// written after its messages were given back, acknowledged or deleted changes nothing.
func TestAnswerOvertaken(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	ms, lease := handOut(t, f, process.Self(), reading.Options{})
	if err := reading.Unread(t.Context(), f.Ledger, ms); err != nil {
		t.Fatal(err)
	}
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "read though it was given back", f.Message(id).ReadAt, "")
	ms, lease = handOut(t, f, process.Self(), reading.Options{})
	want.IDs(t, ms, id)
	if _, _, err := messages.Release(t.Context(), f.Ledger, id, "b"); err != nil {
		t.Fatal(err)
	}
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "read though it was released", f.Message(id).ReadAt, "")
	f.Clock.Advance(time.Second)
	ms, lease = handOut(t, f, process.Self(), reading.Options{})
	want.IDs(t, ms, id)
	f.Clock.Advance(time.Second)
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, id, "b"); err != nil {
		t.Fatal(err)
	}
	read := f.Message(id).ReadAt
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "read at", f.Message(id).ReadAt, read)
	want.Rows(t, f.Rows(`SELECT count(*) FROM message_trace WHERE message_id = ? AND event = 'read'`, id), "1")
}

// TestRefusedMark checks that a user's trigger that refuses to mark one message does not prevent others from being
// read. The refused message is unread again.
func TestRefusedMark(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	refused, other := f.Send("a", "b"), f.Send("a", "b")
	f.Forbid("UPDATE OF read_at", "agent_message", "NEW.read_at <> '' AND NEW.message_id = '"+refused+"'",
		"not this one")
	ms, lease := handOut(t, f, process.Self(), reading.Options{})
	want.IDs(t, ms, refused, other)
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "read", f.Message(other).ReadAt != "", true)
	want.Equal(t, "read though it was refused", f.Message(refused).ReadAt, "")
	want.Rows(t, f.Rows(`SELECT message_id FROM reading_lease`))
	ms, _ = handOut(t, f, process.Self(), reading.Options{})
	want.IDs(t, ms, refused)
}

// TestRefusedGivingBack checks that a message that a user's trigger keeps from being given back does not affect other
// messages: when its reader has died, its answer could not be written, or its time is over. Giving it back is tried
// again after a while, not at once.
func TestRefusedGivingBack(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	refused, other := f.Send("a", "b"), f.Send("a", "b")
	f.Deliver()
	allow := f.Forbid("UPDATE OF read_at", "agent_message", "NEW.message_id = '"+refused+"'", "not this one")
	dead, kill := startWriter(t)
	ms, _ := handOut(t, f, dead, reading.Options{})
	want.IDs(t, ms, refused, other)
	kill()
	ms, _ = handOut(t, f, process.Self(), reading.Options{})
	want.IDs(t, ms, other)
	if err := reading.Unread(t.Context(), f.Ledger, ms); err != nil {
		t.Fatal(err)
	}
	ms, lease := handOut(t, f, process.Self(), reading.Options{Lease: messages.ReadingLease{For: time.Minute}})
	want.IDs(t, ms, other)
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(time.Hour)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT message_id FROM reading_lease WHERE until <= ?`, orchestrator.Stamp(f.Clock.Now())))
	allow()
	f.Clock.Advance(time.Hour)
	f.Deliver()
	ms, _ = handOut(t, f, process.Self(), reading.Options{})
	want.IDs(t, ms, refused, other)
}

// TestLivingWriterKeepsItsLease checks that time does not end the lease of a live local writer. Whether a writer on
// another machine lives is unknown, so time ends its lease.
func TestLivingWriterKeepsItsLease(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	ms, lease := handOut(t, f, process.Self(), reading.Options{})
	for range 3 {
		f.Clock.Advance(30 * time.Hour)
		f.Deliver()
		want.IDs(t, f.TakeFor("b", 0))
	}
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "read", f.Message(id).ReadAt != "", true)

	elsewhere := f.Send("a", "b")
	ms, _ = handOut(t, f, process.Self(), reading.Options{})
	want.IDs(t, ms, elsewhere)
	f.SQL(`UPDATE reading_lease SET host = 'elsewhere'`)
	f.Clock.Advance(9 * time.Minute)
	f.Deliver()
	want.IDs(t, f.TakeFor("b", 0))
	f.Clock.Advance(2 * time.Minute)
	want.IDs(t, f.TakeFor("b", 0), elsewhere)
}

// TestLeaseByTimeOnceWritten checks that the time of a lease begins when the answer is written. Before that, the
// death of the writer ends the lease, and time does not.
func TestLeaseByTimeOnceWritten(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	dead, kill := startWriter(t)
	ms, _ := handOut(t, f, dead, reading.Options{Lease: messages.ReadingLease{For: time.Hour}})
	want.IDs(t, ms, id)
	kill()
	ms, lease := handOut(t, f, process.Self(), reading.Options{Lease: messages.ReadingLease{For: time.Hour}})
	want.IDs(t, ms, id)
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "read under a lease", f.Message(id).ReadAt, "")
	want.Rows(t, f.Rows(`SELECT ends, pid, until FROM reading_lease`), "time 0 "+ms[0].ShownUntil)
	f.Clock.Advance(time.Hour)
	want.IDs(t, f.TakeFor("b", 0), id)
}

// TestWaiterInheritsFromTheDead checks that a waiter gets the messages of a reader that died before it wrote its
// answer.
func TestWaiterInheritsFromTheDead(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	dead, kill := startWriter(t)
	handOut(t, f, dead, reading.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan []orchestrator.Message, 1)
	waits := make(chan struct{})
	go func() {
		ms, _, err := reading.Wait(ctx, f.Open().Ledger,
			reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour, Waiting: func() { close(waits) }})
		if err != nil {
			t.Error(err)
		}
		got <- ms
	}()
	<-waits
	kill()
	want.IDs(t, <-got, id)
}

// TestPostsReadWhenWritten checks that posts are read once they were written. If a reader dies before that, the first
// post that it was handed is unread again, with all later posts of the thread, including those that another reader
// got since.
func TestPostsReadWhenWritten(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	th := f.Thread("a", "b").ID
	post := func() string { return f.MustPost(th, "a").MessageID }
	one, two := post(), post()
	dead, kill := startWriter(t)
	ms, _ := handOut(t, f, dead, reading.Options{Posts: true})
	want.IDs(t, ms, one, two)
	three := post()
	ms, lease := handOut(t, f, process.Self(), reading.Options{Posts: true})
	want.IDs(t, ms, three) // this read does not wait for the other reader
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	kill()
	ms, lease = handOut(t, f, process.Self(), reading.Options{Posts: true})
	want.IDs(t, ms, one, two, three)
	if err := reading.Written(t.Context(), f.Ledger, ms, lease); err != nil {
		t.Fatal(err)
	}
	ms, _ = handOut(t, f, process.Self(), reading.Options{Posts: true})
	want.IDs(t, ms)
	want.Rows(t, f.Rows(`SELECT message_id FROM reading_lease`))

	// The same holds for read_thread, which finds the posts of a dead reader.
	four := post()
	dead, kill = startWriter(t)
	readAs := func(writer process.ID) []orchestrator.Message {
		t.Helper()
		read, err := threads.Read(t.Context(), f.Ledger,
			threads.ReadOptions{Thread: th, Agent: "b", Limit: 10,
				Lease: messages.ReadingLease{Holder: "read_thread", Writer: writer}})
		if err != nil {
			t.Fatal(err)
		}
		return read.Posts
	}
	want.IDs(t, readAs(dead), four)
	want.IDs(t, readAs(process.Self()))
	f.ArchiveAll()
	kill()
	ms = readAs(process.Self())
	want.IDs(t, ms, four)
	if err := reading.Unread(t.Context(), f.Ledger, ms); err != nil {
		t.Fatal(err)
	}
	want.IDs(t, readAs(process.Self()), four)
}
