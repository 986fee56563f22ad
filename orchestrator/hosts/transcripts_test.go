package hosts_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
)

// A session that continues in another process keeps the shown messages that its transcript contains, and gets the
// others again. Messages that the model answered before its process was killed are read.
func TestResumedSession(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	host, kill := newProcess(t)
	answered, present, absent := r.Send("alice", "bob"), r.Send("alice", "bob"), r.Send("alice", "bob")
	want.IDs(t, r.event(hosts.Worked, of(host)).Messages, answered, present, absent)
	kill()
	sights := transcript{Of: map[string]hosts.Sight{r.Mark(answered): hosts.Answered, r.Mark(present): hosts.Present},
		Written: r.Clock.Now()}
	got := r.event(hosts.Started, func(e *hosts.Event) { e.Transcript = sights })
	want.IDs(t, got.Messages, absent)
	want.Equal(t, "answered", r.standing(answered), "read")
	want.Equal(t, "present", r.standing(present), "shown")
}

// A daemon may have ended the leases of a killed session before it is resumed. The transcript still decides, even
// for a host that settles messages itself.
func TestResumedSessionAfterItsLeasesEnded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		next    hosts.Kind
		settled bool
		sight   hosts.Sight
		then    string
	}{
		{hosts.Started, false, hosts.Answered, "read"},
		{hosts.Started, false, hosts.Present, "shown"},
		{hosts.Prompted, true, hosts.Answered, "read"},
		{hosts.Prompted, true, hosts.Present, "shown"},
	} {
		t.Run(fmt.Sprint(test.next, test.sight), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			id := r.shown()
			r.event(hosts.Ended)
			want.Equal(t, "standing", r.standing(id), "unread")
			settled := func(e *hosts.Event) { e.Settled = test.settled }
			want.IDs(t, r.event(test.next, r.sees(test.sight, id), settled).Messages)
			want.Equal(t, "standing", r.standing(id), test.then)
			r.confirms(id)
		})
	}
}

// For a host that settles messages itself, the transcript decides when another process continues the session.
func TestResumedSessionThatSettles(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	answered, present, absent := r.Send("alice", "bob"), r.Send("alice", "bob"), r.Send("alice", "bob")
	settled := func(e *hosts.Event) { e.Settled, e.Transcript = true, nil }
	want.IDs(t, r.event(hosts.Rested, settled, of(process.Of(os.Getppid()))).Messages, answered, present, absent)
	sights := transcript{Of: map[string]hosts.Sight{r.Mark(answered): hosts.Answered, r.Mark(present): hosts.Present}}
	want.IDs(t, r.event(hosts.Prompted, settled, func(e *hosts.Event) { e.Transcript = sights }).Messages, absent)
	want.IDs(t, r.event(hosts.Prompted, settled).Messages)
	r.event(hosts.Ended, settled, of(process.Of(os.Getppid()))) // the other event is late
	want.Equal(t, "answered", r.standing(answered), "read")
	want.Equal(t, "present", r.standing(present), "shown")
	want.IDs(t, r.event(hosts.Prompted, settled).Messages)
}

// A host that forgets the answer to the start of a session is shown nothing there.
func TestForgets(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.Send("alice", "bob")
	forgets := func(e *hosts.Event) { e.Forgets = true }
	want.IDs(t, r.event(hosts.Started, forgets).Messages)
	want.IDs(t, r.event(hosts.Prompted, forgets).Messages, id)
}

// Nothing is known about messages shown before the part of a long transcript that was read: they do not count as
// discarded.
func TestTranscriptWithoutItsBeginning(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.shown()
	r.Clock.Advance(time.Minute)
	cut := func(e *hosts.Event) {
		e.Transcript = transcript{Of: map[string]hosts.Sight{}, Written: r.Clock.Now(),
			Since: r.Clock.Now().Add(-time.Second)}
	}
	want.IDs(t, r.event(hosts.Prompted, cut).Messages)
	want.Equal(t, "standing", r.standing(id), "shown")
}

// TestResumedSessionWithManyMessages checks that no message in the transcript is shown again, however many there
// are.
func TestResumedSessionWithManyMessages(t *testing.T) {
	r := newRoom(t)
	var ids []string
	for range 30 {
		ids = append(ids, r.Send("alice", "bob"))
	}
	r.event(hosts.Started)
	r.event(hosts.Prompted)
	r.event(hosts.Ended)
	if a := r.event(hosts.Started, r.sees(hosts.Present, ids...)); len(a.Messages) > 0 {
		t.Errorf("%d messages are shown again", len(a.Messages))
	}
}

// confirms makes the host report that its model has seen a message in bob's session one, and checks that the
// message is read then.
func (r room) confirms(id string) {
	r.T.Helper()
	if err := hosts.Settle(r.T.Context(), r.Ledger, "bob", "one", []string{r.Mark(id)}, true); err != nil {
		r.T.Fatal(err)
	}
	want.Equal(r.T, "standing", r.standing(id), "read")
}

// handsBack makes bob hand a message back.
func (r room) handsBack(id string) {
	r.T.Helper()
	if _, _, err := messages.Release(r.T.Context(), r.Ledger, id, "bob"); err != nil {
		r.T.Fatal(err)
	}
}

// TestHandedBack checks that a message that was handed back is shown again, although the transcript contains it.
func TestHandedBack(t *testing.T) {
	r := newRoom(t)
	id := r.Send("alice", "bob")
	none := of(process.None())
	r.event(hosts.Worked, none)
	r.event(hosts.Worked, none, r.sees(hosts.Answered, id))
	want.Equal(t, "standing", r.standing(id), "read")
	r.handsBack(id)
	killed, kill := newProcess(t)
	again := r.sees(hosts.Answered, id) // the first showing
	want.IDs(t, r.event(hosts.Worked, none, again,
		func(e *hosts.Event) { e.Writer = killed }).Messages, id)
	kill()
	want.IDs(t, r.event(hosts.Worked, none, again).Messages, id)
	want.IDs(t, r.event(hosts.Worked, none, again).Messages)
	want.Equal(t, "standing", r.standing(id), "shown")
	want.IDs(t, r.event(hosts.Stopped, none, again).Messages)
	want.Equal(t, "standing", r.standing(id), "read")
}

// TestHandedBackAndResumed checks that for a host that settles messages itself, a message in the transcript may be
// from an earlier showing.
func TestHandedBackAndResumed(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	id := r.Send("alice", "bob")
	settled := func(e *hosts.Event) { e.Settled = true }
	first := of(process.Of(os.Getppid()))
	want.IDs(t, r.event(hosts.Rested, settled, first).Messages, id)
	r.confirms(id)
	r.handsBack(id)
	want.IDs(t, r.event(hosts.Rested, settled, first).Messages, id)
	want.IDs(t, r.event(hosts.Prompted, settled, r.sees(hosts.Answered, id)).Messages, id)
	want.Equal(t, "standing", r.standing(id), "shown")
}

// TestInner checks that an event in a subagent settles and shows nothing, but proves that the session lives.
func TestInner(t *testing.T) {
	r := newRoom(t)
	id := r.Send("alice", "bob")
	none := of(process.None())
	want.IDs(t, r.event(hosts.Worked, none).Messages, id)
	other := r.Send("alice", "bob")
	inner := func(e *hosts.Event) { e.Inner = true }
	for range 3 {
		r.Clock.Advance(9 * time.Minute)
		r.Deliver()
		want.IDs(t, r.event(hosts.Worked, none, inner, r.sees(hosts.Answered, id)).Messages)
		want.Equal(t, "standing", r.standing(id), "shown")
	}
	want.IDs(t, r.event(hosts.Worked, none, r.sees(hosts.Answered, id)).Messages, other)
	want.Equal(t, "standing", r.standing(id), "read")
}

// TestForgedMark checks that a text in a transcript that only looks like a message, or is another message, does not
// count.
func TestForgedMark(t *testing.T) {
	r := newRoom(t)
	none := of(process.None())
	id, other := r.Send("alice", "bob"), r.Send("alice", "bob")
	seq, code, _ := strings.Cut(r.Mark(id), ".")
	_, others, _ := strings.Cut(r.Mark(other), ".")
	forged := transcript{Of: map[string]hosts.Sight{
		id: hosts.Answered, seq: hosts.Answered, seq + "." + others: hosts.Answered, "7." + code: hosts.Answered,
		"." + code: hosts.Answered,
	}}
	want.IDs(t, r.event(hosts.Worked, none, func(e *hosts.Event) { e.Transcript = forged }).Messages, id, other)
}

// TestMarkIsNotOfTheID checks that nobody can compute a mark from the database's ID, which everybody with a copy of
// it has. After a restore, nobody can who has a copy of the backup; messages in a transcript are then shown once
// more.
func TestMarkIsNotOfTheID(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	r := newRoom(t)
	none := of(process.None())
	id := r.Send("alice", "bob")
	before := r.Mark(id)
	seq, code, _ := strings.Cut(before, ".")
	made := hmac.New(sha256.New, []byte(r.Rows(`SELECT value FROM settings WHERE key = 'database.id'`)[0]))
	io.WriteString(made, "bob "+id)
	if id := hex.EncodeToString(made.Sum(nil)[:12]); id == code {
		t.Error("the mark is made with the id of the database")
	}
	r.event(hosts.Worked, none) // under a lease
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := r.Ledger.BackupTo(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Ledger.Restore(t.Context(), backup, true); err != nil {
		t.Fatal(err)
	}
	secrets := -1
	if err := enginetest.Plain(t,
		r.Ledger.Path()).QueryRow(`SELECT count(*) FROM agent_secrets`).Scan(&secrets); err != nil || secrets != 0 {
		t.Errorf("the backup brought %d secrets, %v", secrets, err)
	}
	r.Clock.Advance(time.Second)
	r.Deliver() // ends the lease that the backup restored
	old := func(e *hosts.Event) {
		e.Transcript = transcript{Of: map[string]hosts.Sight{before: hosts.Answered}, Written: r.Clock.Now()}
	}
	want.IDs(t, r.event(hosts.Started, none, old).Messages, id)
	if after := r.Mark(id); after == before || !strings.HasPrefix(after, seq+".") {
		t.Errorf("the mark was %s and is %s", before, after)
	}
	if _, err := r.Ledger.Query(t.Context(), `SELECT secret FROM agent_secrets`, store.Bound{Rows: 1}); err == nil {
		t.Error("a query reads the secret")
	}
}

// counted is a transcript that counts how often it is read.
type counted struct{ reads *int }

func (s counted) Sights() hosts.Sights { *s.reads++; return hosts.Sights{Of: map[string]hosts.Sight{}} }

// TestTranscriptIsReadOnce checks that an event reads the transcript once, and not at all if nothing is shown or
// unread.
func TestTranscriptIsReadOnce(t *testing.T) {
	r := newRoom(t)
	reads := 0
	event := func() hosts.Answer {
		return r.event(hosts.Worked, of(process.None()), func(e *hosts.Event) { e.Transcript = counted{&reads} })
	}
	event()
	want.Equal(t, "without mail", reads, 0)
	first := r.Send("alice", "bob")
	r.Deliver()
	want.IDs(t, event().Messages, first)
	want.Equal(t, "with an unread message", reads, 1)
	second := r.Send("alice", "bob")
	r.Deliver()
	want.IDs(t, event().Messages, second)
	want.Equal(t, "with one that is shown and one that is unread", reads, 2)
}
