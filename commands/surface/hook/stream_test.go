package hook

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// talk is a running Stream.
type talk struct {
	room
	in    *io.PipeWriter
	out   *json.Decoder
	ended chan error
}

func (r room) stream() *talk {
	in, input := io.Pipe()
	output, out := io.Pipe()
	s := &talk{room: r, in: input, out: json.NewDecoder(output), ended: make(chan error, 1)}
	go func() { s.ended <- r.host.Stream(r.T.Context(), r.env(), in, out) }()
	return s
}

// says writes a line to the stream. It replaces the IDs of messages by their marks.
func (s *talk) says(words ...string) {
	s.T.Helper()
	words = strings.Fields(strings.Join(words, " "))
	for i, word := range words {
		if strings.HasPrefix(word, "msg-") {
			words[i] = s.Mark(word)
		}
	}
	if _, err := fmt.Fprintln(s.in, strings.Join(words, " ")); err != nil {
		s.T.Fatal(err)
	}
}

// shows waits for a delivery to a session and checks its messages.
func (s *talk) shows(session string, ids ...string) {
	s.T.Helper()
	var d delivery
	read := make(chan error, 1)
	go func() { read <- s.out.Decode(&d) }()
	select {
	case err := <-read:
		if err != nil {
			s.T.Fatal(err)
		}
	case err := <-s.ended:
		s.T.Fatalf("the stream ends with %v instead of showing %q", err, ids)
	case <-enginetest.Deadline(s.T).Done():
		s.T.Fatalf("the stream does not show %q", ids)
	}
	want.Equal(s.T, "session", d.Session, session)
	var marks []string
	for _, id := range ids {
		marks = append(marks, s.Mark(id))
	}
	want.Equal(s.T, "messages", strings.Join(d.IDs, " "), strings.Join(marks, " "))
	for _, id := range ids {
		if !strings.Contains(d.Text, `<mailroom-message id="`+id+`" mark="`+s.Mark(id)+`"`) {
			s.T.Errorf("%s is not in the text:\n%s", id, d.Text)
		}
	}
}

func (s *talk) ends() {
	s.T.Helper()
	s.in.Close()
	if err := <-s.ended; err != nil {
		s.T.Error(err)
	}
}

// TestStream checks that a stream writes one delivery at a time, and that messages that the host does not confirm
// become unread again.
func TestStream(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "opencode")
	first := r.Send("alice", "bob")
	s := r.stream()
	s.says("nonsense")
	s.says("session", "ses_1")
	s.shows("ses_1", first)
	second, third := r.Send("alice", "bob"), r.Send("alice", "bob")
	s.says("idle", "ses_1")
	s.says("confirm", first)
	s.shows("ses_1", second, third)
	s.says("confirm", second)
	s.says("return", third)
	s.says("prompted", "ses_2")
	s.shows("ses_2", third)
	fourth := r.Send("alice", "bob")
	s.ends()
	want.IDs(t, r.TakeFor("bob", 0), third, fourth)
	want.Rows(t, r.Rows(`SELECT session, state FROM host_sessions ORDER BY session`), "ses_1 ended", "ses_2 ended")
}

// TestStreamMeetsTheEnd checks that a delivery at the end of a turn begins the next turn, which also gets messages
// that need not wake the session.
func TestStreamMeetsTheEnd(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "pi")
	s := r.stream()
	s.says("session", "ses_1")
	first := r.Send("alice", "bob")
	s.shows("ses_1", first)
	s.says("idle", "ses_1") // of the turn before
	resting := r.Send("alice", "bob", func(d *orchestrator.Draft) { d.Wake = orchestrator.WakeRest })
	s.says("confirm", first)
	s.shows("ses_1", resting)
	s.says("confirm", resting)
	s.saysAll("idle ses_1")
	want.Rows(t, r.Rows(`SELECT state FROM host_sessions`), "idle")
	s.ends()
}

// TestStreamGoesOn checks that messages in a session that another process has left are not written again: a message
// is read if the model has spoken after it, or once the host confirms it.
func TestStreamGoesOn(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "opencode")
	answered, stands, absent := r.Send("alice", "bob"), r.Send("alice", "bob"), r.Send("alice", "bob")
	s := r.stream()
	s.says("session", "ses_1")
	s.shows("ses_1", answered, stands, absent)
	s.ends()
	s = r.stream()
	s.says("answered", "ses_1", answered, "1.none")
	s.says("stands", "ses_1", stands)
	s.says("prompted", "ses_1")
	s.shows("ses_1", absent)
	want.Rows(t, r.Rows(`SELECT message_id FROM agent_message WHERE read_at <> ''`), answered)
	s.says("prompted", "ses_2")
	s.says("confirm", absent)
	s.says("confirm", stands)
	unread := r.Send("alice", "bob")
	s.shows("ses_2", unread)
	s.says("confirm", unread)
	s.ends()
	want.IDs(t, r.TakeFor("bob", 0))
}

// TestStreamTurns checks that messages alone cause no endless turns, even if a plugin shows them.
func TestStreamTurns(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "opencode")
	s := r.stream()
	s.says("session", "ses_1")
	for range 12 {
		id := r.Send("alice", "bob")
		s.shows("ses_1", id)
		s.says("idle", "ses_1")
		s.says("confirm", id)
	}
	held := r.Send("alice", "bob")
	s.says("idle", "ses_1")
	s.says("prompted", "ses_1")
	s.shows("ses_1", held)
	s.says("confirm", held)
	s.ends()
	want.IDs(t, r.TakeFor("bob", 0))
}

// cannotRead prevents messages from becoming read, until the returned function is called.
func (s *talk) cannotRead() (can func()) {
	s.T.Helper()
	return s.Forbid("UPDATE", "agent_message", `new.read_at <> ''`, "no")
}

// saysAll writes lines and returns after the stream has processed the last of them.
func (s *talk) saysAll(lines ...string) {
	s.T.Helper()
	for _, line := range append(lines, "nonsense", "nonsense") {
		// the first is accepted after the line before it was processed
		s.says(line)
	}
}

// TestStreamSettlesLate checks that messages that the model has seen are recorded once the database is writable
// again, or when the stream ends.
func TestStreamSettlesLate(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"prompted ses_1", "nonsense"} {
		r := newRoom(t, "opencode")
		id := r.Send("alice", "bob")
		s := r.stream()
		s.says("session", "ses_1")
		s.shows("ses_1", id)
		can := s.cannotRead()
		s.saysAll("confirm " + id)
		want.Rows(t, r.Rows(`SELECT read_at FROM agent_message`), "")
		can()
		s.says(last)
		s.ends()
		want.IDs(t, r.TakeFor("bob", 0))
		want.Rows(t, r.Rows(`SELECT read_at <> '' FROM agent_message`), "1")
	}
}

// TestStreamPromptedLate checks that a prompt of the user counts even if it could not be recorded at once.
func TestStreamPromptedLate(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "opencode")
	s := r.stream()
	s.says("session", "ses_1")
	for range 2 {
		id := r.Send("alice", "bob")
		s.shows("ses_1", id)
		s.says("idle", "ses_1")
		s.saysAll("confirm " + id)
	}
	id := r.Send("alice", "bob")
	s.shows("ses_1", id)
	can := s.cannotRead()
	s.saysAll("confirm "+id, "prompted ses_1")
	want.Rows(t, r.Rows(`SELECT turns FROM host_sessions`), "3")
	can()
	s.saysAll("session ses_1")
	want.Rows(t, r.Rows(`SELECT turns FROM host_sessions`), "0")
	s.ends()
}

// TestStreamConfirmsWhatStands checks that a message in another session than that of the open delivery is read once
// the host confirms it.
func TestStreamConfirmsWhatStands(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "opencode")
	first := r.Send("alice", "bob")
	s := r.stream()
	s.says("session", "ses_1")
	s.shows("ses_1", first)
	stands := r.Send("alice", "bob")
	r.Deliver()
	s.saysAll("stands ses_2 "+stands, "prompted ses_2", "confirm "+stands, "confirm "+first)
	want.Rows(t, r.Rows(`SELECT read_at <> '' FROM agent_message`), "1", "1")
	s.ends()
	want.IDs(t, r.TakeFor("bob", 0))
}

// TestStreamOfADigest checks that a delivery that only lists messages has an empty list of marks, not null, since
// plugins iterate over it.
func TestStreamOfADigest(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "pi")
	r.Set("budget.bytes", "3000")
	for range 2 {
		r.Send("alice", "bob", func(d *orchestrator.Draft) { d.Payload = []byte(`"` + strings.Repeat("x", 3900) + `"`) })
	}
	s := r.stream()
	s.says("session", "ses_1")
	var text json.RawMessage
	read := make(chan error, 1)
	go func() { read <- s.out.Decode(&text) }()
	select {
	case err := <-read:
		if err != nil {
			t.Fatal(err)
		}
	case <-enginetest.Deadline(t).Done():
		t.Fatal("nothing is delivered")
	}
	if !strings.Contains(string(text), `"ids":[]`) || !strings.Contains(string(text), "2 more messages for you") {
		t.Errorf("the delivery is %s", text)
	}
	s.ends()
}
