package hosts_test

import (
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
)

// newProcess starts a process, which lives until end is called or the test ends.
func newProcess(t *testing.T) (id process.ID, end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		cmd.Wait()
	})
	t.Cleanup(end)
	return process.Of(cmd.Process.Pid), end
}

// newHolder starts a process that plays an agent host, until end is called or the test ends.
func newHolder(t *testing.T) (h hosts.Holder, end func()) {
	t.Helper()
	id, end := newProcess(t)
	return hosts.Holder{Program: "claude", Process: id}, end
}

func (r room) nameOf(h hosts.Holder) string {
	r.T.Helper()
	name, err := hosts.NameOf(r.T.Context(), r.Ledger, h)
	if err != nil {
		r.T.Fatal(err)
	}
	return name
}

// reports returns the errors of the reports to alice, with the messages that they are about.
func (r room) reports() []string {
	r.T.Helper()
	return r.Rows(`SELECT json_extract(payload, '$.error'), json_extract(payload, '$.message_id') FROM agent_message
		WHERE message_type = 'error_report' AND recipient = 'alice' ORDER BY 2`)
}

// Each process gets its own agent with a new name, the same for all its child processes.
func TestNameOf(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	if _, err := agents.SetGroup(t.Context(), r.Ledger, "claude-2", []string{"bob"}); err != nil {
		t.Fatal(err)
	}
	first, _ := newHolder(t)
	names := make(chan string)
	for _, e := range r.OpenAll(5) {
		go func() {
			name, err := hosts.NameOf(t.Context(), e.Ledger, first)
			if err != nil {
				t.Error(err)
			}
			names <- name
		}()
	}
	for range 5 {
		want.Equal(t, "name", <-names, "claude")
	}
	second, _ := newHolder(t)
	other := first
	other.Program = "gemini"
	for range 2 {
		want.Equal(t, "the second process", r.nameOf(second), "claude-3")
		want.Equal(t, "the first", r.nameOf(first), "claude")
		want.Equal(t, "another host", r.nameOf(other), "gemini")
	}
	for name, want := range map[string]bool{"claude": true, "gemini": true, "bob": false, "nobody": false} {
		if given, err := hosts.IsGiven(t.Context(), r.Ledger, name); err != nil || given != want {
			t.Errorf("%s is given: %t, %v", name, given, err)
		}
	}
	first.Process.Born = "later" // the system reuses process IDs
	want.Equal(t, "a later process", r.nameOf(first), "claude-4")
}

// Messages that are unread when a process ends wait for an hour. Then they expire, their senders are notified, and
// nobody else gets them: neither a process that starts meanwhile nor one that gets the name afterwards.
func TestNameOfAProcessThatEnded(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	first, end := newHolder(t)
	want.Equal(t, "first", r.nameOf(first), "claude")
	read := r.Send("alice", "claude")
	r.Deliver()
	r.Take("claude")
	archived := r.Send("alice", "claude")
	r.Deliver()
	r.ArchiveAll()
	unread := r.Send("alice", "claude")
	r.Deliver()
	shown := r.Send("alice", "claude")
	want.IDs(t, r.event(hosts.Worked, func(e *hosts.Event) { e.Agent, e.Process = "claude", first.Process }).Messages,
		archived, unread, shown)
	ids := []string{archived, unread, shown}
	slices.Sort(ids)

	inIt := func(e *hosts.Event) { e.Agent, e.Process = "claude", first.Process }
	knows := func(when, is string) {
		t.Helper()
		presence, err := r.presence("claude")
		want.Equal(t, "error", err, nil)
		want.Equal(t, "presence "+when, presence["claude"], is)
	}
	r.event(hosts.Ended, inIt)
	knows("between two sessions of the process", hosts.NotThere)
	end()
	knows("when it has ended", hosts.Abandoned)
	r.Deliver()
	knows("when that is noted", hosts.Abandoned)
	second, _ := newHolder(t)
	want.Equal(t, "who comes meanwhile", r.nameOf(second), "claude-2")
	r.Clock.Advance(time.Hour - time.Second)
	r.Deliver()
	want.Rows(t, r.reports())
	r.Clock.Advance(time.Second)
	r.Deliver()
	want.Rows(t, r.reports(), "expired "+ids[0], "expired "+ids[1], "expired "+ids[2])
	want.Equal(t, "status", r.Message(shown).Status, orchestrator.Expired)
	want.Equal(t, "status of what was read", r.Message(read).Status, orchestrator.Delivered)
	_, err := messages.Send(t.Context(), r.Ledger,
		orchestrator.Draft{Sender: "alice", Recipient: "claude", Type: "note", Payload: []byte("1")})
	want.Code(t, err, orchestrator.UnknownRecipient)

	third, _ := newHolder(t)
	want.Equal(t, "who comes then", r.nameOf(third), "claude")
	want.IDs(t, r.TakeFor("claude", 0))
	want.IDs(t, r.TakeFor("claude-2", 0))
}

// The name of an agent that nobody misses is free once its process has ended. The name of one that has sent
// something is not.
func TestNameThatNobodyKnows(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	for range 2 {
		h, end := newHolder(t)
		want.Equal(t, "name", r.nameOf(h), "claude")
		end()
	}
	h, end := newHolder(t)
	want.Equal(t, "name", r.nameOf(h), "claude")
	r.Send("claude", "bob")
	r.Deliver()
	end()
	h, _ = newHolder(t)
	want.Equal(t, "name", r.nameOf(h), "claude-2")
	r.Clock.Advance(2 * time.Hour)
	r.Deliver()
	want.Rows(t, r.Rows(`SELECT name FROM agents WHERE name LIKE 'claude%'`), "claude-2")
}

// A process that resumes a session by its ID gets that session's name and messages, but not those of a living
// session.
func TestNameOfAResumedSession(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	first, end := newHolder(t)
	want.Equal(t, "first", r.nameOf(first), "claude")
	inIt := func(e *hosts.Event) { e.Agent, e.Session, e.Process = "claude", "62ffc165", first.Process }
	r.event(hosts.Started, inIt)
	id := r.Send("alice", "claude")
	r.Deliver()

	fork, _ := newHolder(t)
	fork.Words = []string{"claude", "--resume", "62ffc165"}
	want.Equal(t, "while the first lives", r.nameOf(fork), "claude-2")
	end()
	resumed, again := newHolder(t)
	resumed.Words = []string{"claude", "--resume=62ffc165"}
	want.Equal(t, "resumed", r.nameOf(resumed), "claude")
	r.Clock.Advance(2 * time.Hour)
	r.Deliver()
	first = resumed
	want.IDs(t, r.event(hosts.Started, inIt).Messages, id)
	r.event(hosts.Stopped, inIt)
	again()
	r.Send("claude", "bob")
	r.Deliver()
	r.Clock.Advance(2 * time.Hour)
	r.Deliver()
	resumed, _ = newHolder(t)
	resumed.Words = fork.Words
	want.Equal(t, "too late", r.nameOf(resumed), "claude")
	want.Rows(t, r.reports())
}

// A process on another machine is known only by its hooks, and keeps its name for a week.
func TestNameElsewhere(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	h, _ := newHolder(t)
	want.Equal(t, "name", r.nameOf(h), "claude")
	r.SQL(`UPDATE given_names SET host = 'elsewhere'`)
	r.Clock.Advance(7 * orchestrator.Day)
	want.Equal(t, "name of another process", r.nameOf(h), "claude-2")
	r.Clock.Advance(time.Second)
	h, _ = newHolder(t)
	want.Equal(t, "name after a week", r.nameOf(h), "claude")
}

// A removed agent, a row whose agent cannot be removed, and a clock that was set back do no harm.
func TestOddGivenNames(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.SQL(`INSERT INTO given_names (agent, given_at, ends_at) VALUES ('nobody', '', '2026-01-01T00:00:00.000Z'),
		('operator', '', '2026-01-01T00:00:00.000Z'),
		('bob', '', '2099-01-01T00:00:00.000Z')`)
	h, _ := newHolder(t)
	want.Equal(t, "name", r.nameOf(h), "claude")
	want.Rows(t, r.Rows(`SELECT agent FROM given_names`), "claude")
	want.Rows(t, r.Rows(`SELECT name FROM agents WHERE name IN ('bob', 'operator')`))
}

// No agent can be called auto, because `--as auto` asks for a given name.
func TestAutoIsReserved(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	_, _, err := agents.Add(t.Context(), f.Ledger, agents.Update{Name: "Auto"})
	want.Code(t, err, orchestrator.InvalidParams)
}
