package person_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// TestSealed checks that only the devices can read a question, and only its asker can read the answer.
func TestSealed(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	first, second := o.phone(), o.phone()
	asked, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger, person.Question{
		Asker: "builder", Question: "Größe <x> & \"y\"?", Options: []string{"Ja ✓", "No"}, Context: "ctx",
		Priority: "high", Encrypted: true,
		ThreadID: "t-1", InReplyTo: "q-1", ProjectID: "p-1", SessionID: "s-1", TTL: time.Hour,
	})
	if err != nil || asked.Devices != 2 || asked.Unused != nil {
		t.Fatalf("asked %+v, %v", asked, err)
	}
	for _, p := range []*phone{first, second} {
		got := p.mustRead(asked.Body)
		delete(got, "reply")
		mac, err := base64.RawURLEncoding.DecodeString(got["mac"].(string))
		delete(got, "mac")
		want := fmt.Sprint(map[string]any{
			"v": 1, "kind": "question", "id": asked.ID, "from": "builder", "question": "Größe <x> & \"y\"?",
			"options": []string{"Ja ✓", "No"}, "context": "ctx",
			"priority": "high", "createdAt": "2026-01-02T03:04:05.000Z", "expiresAt": "2026-01-02T04:04:05.000Z",
			"threadId": "t-1", "inReplyTo": "q-1", "projectId": "p-1",
		})
		if fmt.Sprint(got) != want || len(mac) != 32 || err != nil {
			t.Errorf("a phone reads %v and a key of %d bytes; want %v", got, len(mac), want)
		}
	}
	if asked.Priority != 1 || asked.SessionID != "s-1" || asked.ExpiresAt != "2026-01-02T04:04:05.000Z" ||
		!asked.Encrypted {
		t.Errorf("stored is %+v", asked.Question)
	}
	if r, err := o.get(asked.ID); err != nil || r.Answered || r.Status != questions.Pending {
		t.Fatalf("an open question is %+v, %v", r, err)
	}
	o.put(asked.ID, second.id, second.answer(asked.Question, 0).seal())
	if _, err := first.read(o.question(asked.ID).Answer); err == nil {
		t.Error("a phone can read an answer")
	}
	o.answered(asked.ID, "Ja ✓")
	text := o.ask()
	o.put(text.ID, first.id, first.answer(text.Question, "At\nnoon  ").seal())
	o.answered(text.ID, "At\nnoon  ")
}

func (o *office) question(id string) questions.Question {
	o.t.Helper()
	q, err := questions.Get(o.t.Context(), o.Ledger, id)
	if err != nil {
		o.t.Fatal(err)
	}
	return q
}

// TestForgedAnswers checks that an answer in the table that is not from a device that read the question is rejected,
// and the question is open again.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	other := o.ask("Yes", "No", "Third")
	asked := o.ask("Yes", "No")
	text := o.ask()
	right := p.answer(asked.Question, 1)
	change := func(what any, edit func(s *said)) string {
		s := p.answer(asked.Question, what)
		edit(s)
		return s.seal()
	}
	forged := map[string]string{
		"no mac": change(1, func(s *said) { delete(s.fields, "mac") }),
		"wrong mac": change(1,
			func(s *said) { s.fields["mac"] = base64.RawURLEncoding.EncodeToString(make([]byte, 32)) }),
		"other option":     change(1, func(s *said) { s.fields["option"] = 0 }),
		"other time":       change(1, func(s *said) { s.fields["time"] = "2026-01-02T03:06:00.000Z" }),
		"no time":          change(1, func(s *said) { s.fields["time"] = "noon"; s.sign() }),
		"other id":         change(1, func(s *said) { s.fields["id"] = other.ID; s.sign() }),
		"other version":    change(1, func(s *said) { s.fields["v"] = 2; s.sign() }),
		"out of range":     change(2, func(*said) {}),
		"negative":         change(-1, func(*said) {}),
		"a text":           change("Yes", func(*said) {}),
		"nothing":          change(nil, func(*said) {}),
		"words put in":     change(1, func(s *said) { s.fields["text"] = "Yes" }),
		"no words":         change(1, func(s *said) { s.fields["text"] = " "; s.sign() }),
		"too many words":   change(1, func(s *said) { s.fields["text"] = strings.Repeat("x", 2001); s.sign() }),
		"a further key":    change(1, func(s *said) { s.fields["also"] = 1 }),
		"another's answer": p.answer(other.Question, 2).seal(),
		"in clear":         `{"option":1}`,
		"to another":       sealTo(p.identity.Recipient().String(), []byte(`{}`)),
		"truncated":        right.seal()[:40],
		"no JSON":          sealTo(right.reply, []byte("yes")),
		"two":              sealTo(right.reply, []byte(right.plain()+" {}")),
		"garbage":          "%%%",
		"empty":            sealTo(right.reply, nil),
		"larger than any":  sealTo(right.reply, []byte(strings.Repeat(" ", 40<<10))),
		"one flipped byte": flipped(right.seal()),
		"key of the reply ": sealTo(right.reply,
			[]byte(`{"v":1,"id":"`+asked.ID+`","option":1,"time":"2026-01-02T03:05:00.000Z","mac":"!"}`)),
	}
	for name, answer := range forged {
		o.forge(asked.ID, answer)
		r, err := o.get(asked.ID)
		if err != nil || r.Answered || r.Refused == "" || r.Status != questions.Pending || r.Question.Answer != "" {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
	}
	for _, written := range []any{"", " ", strings.Repeat("x", 2001), 0} {
		o.forge(text.ID, p.answer(text.Question, written).seal())
		if r, err := o.get(text.ID); err != nil || r.Answered || r.Refused == "" {
			t.Fatalf("%q: %+v, %v", written, r, err)
		}
	}
	o.put(asked.ID, p.id, right.seal())
	o.answered(asked.ID, "No")
	o.put(text.ID, p.id, p.answer(text.Question, strings.Repeat("ü", 2000)).seal())
	o.answered(text.ID, strings.Repeat("ü", 2000))
}

// TestComment checks that a comment is returned with its option, and that nobody can remove or move it.
func TestComment(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	asked := o.ask("Yes", "No")
	right := p.answer(asked.Question, 0)
	right.fields["text"] = "but only on staging\nnot before noon"
	right.sign()
	for name, edit := range map[string]func(){
		"the words are gone": func() { delete(right.fields, "text") },
		"the option is gone": func() { delete(right.fields, "option") },
		"another option":     func() { right.fields["option"] = 1 },
		"the end is cut off": func() { right.fields["text"] = "but only on staging" },
		"the end is in another": func() {
			right.fields["text"], right.fields["time"] = "but only on staging",
				"not before noon\n2026-01-02T03:05:00.000Z"
		},
	} {
		kept := maps.Clone(right.fields)
		edit()
		o.forge(asked.ID, right.seal())
		if r, err := o.get(asked.ID); err != nil || r.Answered || r.Refused == "" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		right.fields = kept
	}
	o.put(asked.ID, p.id, right.seal())
	o.answered(asked.ID, "Yes")
	if r, err := o.get(asked.ID); err != nil || r.Comment != "but only on staging\nnot before noon" {
		t.Errorf("%+v, %v", r, err)
	}
}

// flipped changes one byte of a sealed payload.
func flipped(sealed string) string {
	raw, _ := base64.StdEncoding.DecodeString(sealed)
	raw[len(raw)-20] ^= 1
	return base64.StdEncoding.EncodeToString(raw)
}

// forge writes an answer into the table, as any program could.
func (o *office) forge(id, answer string) {
	o.t.Helper()
	o.exec(`UPDATE signal_questions SET status = 'answered', answer = ?, answered_by = 'd-somebody',
		ended_at = '2026-01-02T03:05:00.000Z' WHERE question_id = ?`, answer, id)
}

// TestTableIsNotTrusted checks that the answer for an asker depends on the data kept beside the table, whatever the
// table contains.
func TestTableIsNotTrusted(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	asked := o.ask("Yes", "No")
	o.exec(`UPDATE signal_questions SET encrypted = 0, body = '{"options":["Everything","No"]}' WHERE question_id = ?`,
		asked.ID)
	o.forge(asked.ID, `{"option":0}`)
	if r, err := o.get(asked.ID); err != nil || r.Answered || r.Refused == "" {
		t.Fatalf("an answer in clear to a question that was sealed: %+v, %v", r, err)
	}
	o.put2(asked.ID, p.answer(asked.Question, 1).seal())
	o.exec(`UPDATE signal_questions SET asker = 'thief' WHERE question_id = ?`, asked.ID)
	if _, err := person.Read(t.Context(), o.Ledger, asked.ID, "thief",
		0); orchestrator.CodeOf(err) != orchestrator.PermissionDenied {
		t.Fatalf("somebody else reads it: %v", err)
	}
	o.exec(`UPDATE signal_questions SET asker = 'builder' WHERE question_id = ?`, asked.ID)
	o.answered(asked.ID, "No")

	// Ending the question first, so that its key is removed, does not help either.
	again := o.ask("Yes", "No")
	o.exec(`UPDATE signal_questions SET status = 'cancelled', ended_at = '2026-01-02T03:05:00.000Z'
		WHERE question_id = ?`, again.ID)
	if err := person.Sweep(t.Context(), o.Ledger); err != nil {
		t.Fatal(err)
	}
	o.exec(`UPDATE signal_questions SET encrypted = 0, body = '{"options":["Yes","No"]}' WHERE question_id = ?`,
		again.ID)
	o.forge(again.ID, `{"option":0}`)
	_, err := o.get(again.ID)
	want.Code(t, err, orchestrator.Unavailable)
}

// put2 stores a genuine answer without the checks on when a question can be answered.
func (o *office) put2(id, answer string) { o.forge(id, answer) }

// TestOnlyTheAskerReads checks that only the asker and the administrator can read an answer.
func TestOnlyTheAskerReads(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	asked := o.ask("Yes", "No")
	_, err := person.Read(t.Context(), o.Ledger, asked.ID, "other", 0)
	want.Code(t, err, orchestrator.NotFound)
	o.put(asked.ID, p.id, p.answer(asked.Question, 0).seal())
	_, err = person.Read(t.Context(), o.Ledger, asked.ID, "other", 0)
	want.Code(t, err, orchestrator.NotFound)
	if r, err := person.Read(t.Context(), o.Ledger, asked.ID, "", 0); err != nil || r.Text != "Yes" {
		t.Fatalf("the administrator reads %+v, %v", r, err)
	}
	if q := o.question(asked.ID); q.ReadAt != "" { // otherwise its asker would have only ten minutes from now on
		t.Errorf("it counts as read at %s by its asker", q.ReadAt)
	}
	_, err = o.get("q-00000000000000000000000000")
	want.Code(t, err, orchestrator.NotFound)
	_, err = o.get("../../etc/passwd")
	want.Code(t, err, orchestrator.NotFound)
}

// TestReadAgain checks that an answer can be read for ten minutes after it was first read, and not longer.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	asked := o.ask("Yes", "No")
	o.put(asked.ID, p.id, p.answer(asked.Question, 0).seal())
	o.clock.Advance(24 * time.Hour)
	o.answered(asked.ID, "Yes")
	o.clock.Advance(10*time.Minute - time.Second)
	o.answered(asked.ID, "Yes")
	o.clock.Advance(time.Second)
	_, err := o.get(asked.ID)
	want.Code(t, err, orchestrator.Conflict)
	if !strings.Contains(err.Error(), "2026-01-03T03:04:05.000Z") || len(o.files("replies")) != 0 {
		t.Errorf("%v; left is %v", err, o.files("replies"))
	}

	// The error is different if the key was never here.
	elsewhere := o.ask()
	o.put(elsewhere.ID, p.id, p.answer(elsewhere.Question, "x").seal())
	if err := os.RemoveAll(o.Ledger.FilePrefix() + "-signal"); err != nil {
		t.Fatal(err)
	}
	_, err = o.get(elsewhere.ID)
	want.Code(t, err, orchestrator.Unavailable)
}

// TestNotEncrypted checks that an unencrypted question is answered unencrypted, and can be read as long as it exists.
func TestNotEncrypted(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	asked, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
		person.Question{Asker: "builder", Question: "Deploy?", Options: []string{"Yes", "No"}})
	if err != nil || !strings.Contains(asked.Body, `"question":"Deploy?","options":["Yes","No"],"priority":"normal"`) ||
		strings.Contains(asked.Body, "mac") {
		t.Fatalf("asked %+v, %v", asked, err)
	}
	o.forge(asked.ID, `{"option":7}`)
	if r, err := o.get(asked.ID); err != nil || r.Answered || r.Refused == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	o.put(asked.ID, p.id, `{"option":1}`)
	o.answered(asked.ID, "No")
	o.clock.Advance(24 * time.Hour)
	o.answered(asked.ID, "No")
	if keys := o.files("replies"); len(keys) != 0 {
		t.Errorf("what was asked in clear has the keys %v", keys)
	}
}

// TestEndedQuestions checks that the key of a question that ends without an answer is removed immediately.
func TestEndedQuestions(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.phone()
	cancelled, expired := o.ask(), o.ask()
	if q, err := person.Cancel(t.Context(), o.Ledger, cancelled.ID, "builder"); err != nil ||
		q.Status != questions.Cancelled {
		t.Fatalf("%+v, %v", q, err)
	}
	if left := o.files("replies"); !slices.Equal(left, []string{expired.ID}) {
		t.Errorf("left is %v", left)
	}
	if r, err := o.get(cancelled.ID); err != nil || r.Answered || r.Status != questions.Cancelled {
		t.Errorf("%+v, %v", r, err)
	}
	o.clock.Advance(person.DefaultTTL)
	if r, err := o.get(expired.ID); err != nil || r.Answered || r.Status != questions.Expired {
		t.Errorf("%+v, %v", r, err)
	}
	if left := o.files("replies"); len(left) != 0 {
		t.Errorf("left is %v", left)
	}
}

// TestOrphans checks that files of an Ask that was killed between its file and its question are removed, and that a
// question that another process is asking is left alone.
func TestOrphans(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.phone()
	kept := o.ask()
	orphan, err := questions.NewSignalID(o.Ledger, "q-")
	if err != nil {
		t.Fatal(err)
	}
	replies := filepath.Join(o.Ledger.FilePrefix()+"-signal", "replies")
	for _, name := range []string{orphan, ".new-TORN"} {
		if err := os.WriteFile(filepath.Join(replies, name), []byte(`{"asker"`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.clock.Advance(time.Hour - time.Second)
	if _, err := o.get(kept.ID); err != nil {
		t.Fatal(err)
	}
	if left := o.files("replies"); len(left) != 3 {
		t.Fatalf("left is %v", left)
	}
	o.clock.Advance(time.Second)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(replies, ".new-TORN"), old, old); err != nil {
		t.Fatal(err)
	}
	last := o.ask()
	if left := o.files("replies"); !slices.Equal(left, []string{kept.ID, last.ID}) {
		t.Errorf("left is %v", left)
	}
}

// TestMessageAsksOnce checks that a message to the user asks one question, however often its delivery is tried.
func TestMessageAsksOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.phone()
	q := person.Question{Asker: "builder", Question: "Deploy?", Encrypted: true, MessageID: "msg-1"}
	first, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger, q)
	if err != nil {
		t.Fatal(err)
	}
	devices, err := questions.Devices(t.Context(), o.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	// The question has been asked nevertheless.
	if _, err := person.Revoke(t.Context(), o.Ledger, devices[0].ID); err != nil {
		t.Fatal(err)
	}
	second, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger, q)
	if err != nil || second.ID != first.ID || second.Body != first.Body {
		t.Errorf("asked %s, then %s, %v", first.ID, second.ID, err)
	}
	if left := o.files("replies"); !slices.Equal(left, []string{first.ID}) {
		t.Errorf("left is %v", left)
	}
}

// TestFailedAskLeavesNothing checks that a rejected question leaves no key.
func TestFailedAskLeavesNothing(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.phone()
	_, err := person.Ask(t.Context(), o.Ledger, person.Question{Asker: "nobody", Question: "Deploy?", Encrypted: true})
	want.Code(t, err, orchestrator.UnknownSender)
	if left := o.files("replies"); len(left) != 0 {
		t.Errorf("left is %v", left)
	}
}

// TestWait checks that a waiting asker gets the answer as soon as it exists.
func TestWait(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	asked := o.ask("Yes", "No")
	got := make(chan person.Response)
	go func() {
		r, _ := person.Read(background, o.Ledger, asked.ID, "builder", time.Minute)
		got <- r
	}()
	o.put(asked.ID, p.id, p.answer(asked.Question, 1).seal())
	if r := <-got; r.Text != "No" {
		t.Errorf("the answer is %+v", r)
	}
}

// TestSentBackToWhoAsked checks that an answer is not returned if the table names another recipient.
func TestSentBackToWhoAsked(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	asked, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
		person.Question{Asker: "builder", Question: "Deploy?", Encrypted: true, MessageID: "msg-1"})
	if err != nil {
		t.Fatal(err)
	}
	command := o.ask()
	for _, q := range []questions.Question{asked.Question, command.Question} {
		o.put(q.ID, p.id, p.answer(q, "yes").seal())
	}
	look := func(id string) error {
		r, err := person.Look(t.Context(), o.Ledger, id)
		if (err == nil) != (r.Text == "yes") {
			t.Fatalf("%+v, %v", r, err)
		}
		return err
	}
	if err := look(asked.ID); err != nil {
		t.Fatal(err)
	}
	for _, written := range []string{`message_id = 'msg-2'`, `message_id = ''`,
		`message_id = 'msg-1', asker = 'thief'`} {
		o.exec(`UPDATE signal_questions SET `+written+` WHERE question_id = ?`, asked.ID)
		want.Code(t, look(asked.ID), orchestrator.PermissionDenied)
	}
	o.exec(`UPDATE signal_questions SET message_id = 'msg-2' WHERE question_id = ?`, command.ID)
	want.Code(t, look(command.ID), orchestrator.PermissionDenied)
	o.answered(command.ID, "yes")
}
