package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
)

// phoneFixture is a fixture with an agent "builder" and devices that are pushed to, through the scripted transport.
func phoneFixture(t *testing.T, devices int) (f *fixture, ids []string) {
	t.Helper()
	f = newFixture(t, "builder", "reviewer")
	for i := range devices {
		d, _ := f.paired(fmt.Sprintf("phone %d", i))
		if _, err := f.ActivateDevice(t.Context(), d.ID, d.Recipient); err != nil {
			t.Fatal(err)
		}
		endpoint := fmt.Sprintf("https://updates.push.services.mozilla.com/wpush/v2/%d", i)
		if err := f.Subscribe(t.Context(), d.ID, subscription(endpoint)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.ID)
	}
	return f, ids
}

// subscription is a subscription with the keys of RFC 8291, appendix A.
func subscription(endpoint string) orchestrator.Subscription {
	return orchestrator.Subscription{
		Endpoint: endpoint,
		P256dh:   "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
		Auth:     "BTBZMqHH6r4Tts7J_aSIgg",
	}
}

// paired pairs a device, which waits to be approved.
func (f *fixture) paired(name string) (d orchestrator.Device, token string) {
	f.t.Helper()
	code, _, err := f.StartPairing(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	d, token, err = f.Pair(f.t.Context(), orchestrator.PairRequest{Code: code, Name: name, Recipient: "age1" + strings.ReplaceAll(name, " ", "")})
	if err != nil {
		f.t.Fatal(err)
	}
	return d, token
}

func (f *fixture) question(devices []string, change ...func(*orchestrator.QuestionDraft)) orchestrator.Question {
	f.t.Helper()
	id, err := f.NewSignalID("q-")
	if err != nil {
		f.t.Fatal(err)
	}
	d := orchestrator.QuestionDraft{ID: id, Asker: "builder", Encrypted: true, Body: "c2VhbGVk", TTL: time.Hour, Devices: devices}
	for _, c := range change {
		c(&d)
	}
	q, _, err := f.AskUser(f.t.Context(), d)
	if err != nil {
		f.t.Fatal(err)
	}
	return q
}

// pushes are what the devices got, as "device kind id status".
func (f *fixture) pushes() (list []string) {
	f.t.Helper()
	if _, err := f.DeliverAll(f.t.Context(), orchestrator.DeliverOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.wire.mu.Lock()
	defer f.wire.mu.Unlock()
	for _, m := range f.wire.arrived {
		var p orchestrator.Push
		if err := json.Unmarshal(m.Payload, &p); err != nil {
			f.t.Fatal(err)
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", m.Recipient, p.Kind, p.ID, p.Status)))
	}
	f.wire.arrived = nil
	return list
}

// sameLines compares lines whose order is nobody's: each recipient is delivered to by itself.
func sameLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// events are what the trace has of an id.
func (f *fixture) events(id string) string {
	f.t.Helper()
	table, err := f.Query(f.t.Context(), fmt.Sprintf(`SELECT group_concat(event || ':' || coalesce(old_status,'') || '>' || coalesce(new_status,''), ' ')
		FROM (SELECT * FROM message_trace WHERE message_id = '%s' ORDER BY id)`, id), 1)
	if err != nil {
		f.t.Fatal(err)
	}
	return fmt.Sprint(table.Rows[0].Values[0])
}

// A question is pushed to every device, the first answer ends it, and the others are told so.
func TestQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 3)
	q := f.question(ids)
	sameLines(t, f.pushes(), "device:"+ids[0]+" question "+q.ID, "device:"+ids[1]+" question "+q.ID, "device:"+ids[2]+" question "+q.ID)
	got, err := f.AnswerQuestion(t.Context(), q.ID, ids[1], "sealed answer")
	if err != nil || got.Status != orchestrator.QuestionAnswered || got.AnsweredBy != ids[1] || got.Answer != "sealed answer" {
		t.Fatalf("%+v, %v", got, err)
	}
	sameLines(t, f.pushes(), "device:"+ids[0]+" ended "+q.ID+" answered", "device:"+ids[2]+" ended "+q.ID+" answered")
	_, err = f.AnswerQuestion(t.Context(), q.ID, ids[0], "too late")
	wantCode(t, err, orchestrator.Conflict)
	if _, err := f.CancelQuestion(t.Context(), q.ID, "builder"); orchestrator.CodeOf(err) != orchestrator.Conflict {
		t.Error(err)
	}
	for range 2 {
		if err := f.AnswerRead(t.Context(), q.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := f.events(q.ID), "created:>pending answered:pending>answered read:answered>answered"; got != want {
		t.Errorf("the trace has %q, not %q", got, want)
	}
}

// Of many answers at the same time, by several devices and processes, one wins.
func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 2)
	q := f.question(ids)
	other := f.open()
	var mu sync.Mutex
	var won []string
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			r := f.Engine
			if i%2 == 1 {
				r = other
			}
			answer := fmt.Sprint("answer ", i)
			_, err := r.AnswerQuestion(t.Context(), q.ID, ids[i%2], answer)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, answer)
			} else if orchestrator.CodeOf(err) != orchestrator.Conflict {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := f.Question(t.Context(), q.ID)
	if err != nil || len(won) != 1 || got.Answer != won[0] {
		t.Fatalf("%d won; %+v, %v", len(won), got, err)
	}
}

// A question that expires, or is taken back, tells the devices that were told of it, and no others.
func TestQuestionEnds(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 1)
	waiting := f.question(ids)
	if _, err := f.CancelQuestion(t.Context(), waiting.ID, "reviewer"); orchestrator.CodeOf(err) != orchestrator.NotFound {
		t.Errorf("somebody else took it back: %v", err)
	}
	if q, err := f.CancelQuestion(t.Context(), waiting.ID, "builder"); err != nil || q.Status != orchestrator.QuestionCancelled {
		t.Fatalf("%+v, %v", q, err)
	}
	sameLines(t, f.pushes()) // it was not pushed yet, so nobody is told anything
	told := f.question(ids)
	sameLines(t, f.pushes(), "device:"+ids[0]+" question "+told.ID)
	f.clock.advance(time.Hour)
	sameLines(t, f.pushes(), "device:"+ids[0]+" ended "+told.ID+" expired")
	if _, err := f.AnswerQuestion(t.Context(), told.ID, ids[0], "late"); orchestrator.CodeOf(err) != orchestrator.Conflict {
		t.Errorf("answered when it had expired: %v", err)
	}
	unseen := f.question(ids)
	f.clock.advance(2 * time.Hour)
	if q, err := f.Question(t.Context(), unseen.ID); err != nil || q.Status != orchestrator.QuestionExpired {
		t.Fatalf("a look expires it: %+v, %v", q, err)
	}
	if list, err := f.Questions(t.Context(), orchestrator.QuestionFilter{Status: orchestrator.QuestionExpired}); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A device whose push failed may have shown the question all the same: it is told.
func TestFailedPushIsToldTheEnd(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 1)
	f.wire.set(failing("500"))
	q := f.question(ids)
	f.pushes()
	f.wire.set(nil)
	if _, err := f.CancelQuestion(t.Context(), q.ID, ""); err != nil {
		t.Fatal(err)
	}
	sameLines(t, f.pushes(), "device:"+ids[0]+" ended "+q.ID+" cancelled")
	f.clock.advance(10 * time.Minute)
	sameLines(t, f.pushes())
}

// An answer that was refused makes the question pending again, if its time has not passed and no other has come.
func TestRefusedAnswer(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 1)
	q := f.question(ids)
	f.pushes()
	answer := func(text string) {
		t.Helper()
		if _, err := f.AnswerQuestion(t.Context(), q.ID, ids[0], text); err != nil {
			t.Fatal(err)
		}
	}
	answer("forged")
	if err := f.RefuseAnswer(t.Context(), q.ID, "another", "why"); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.Question(t.Context(), q.ID); got.Answer != "forged" {
		t.Fatalf("an answer was refused that is not there: %+v", got)
	}
	if err := f.RefuseAnswer(t.Context(), q.ID, "forged", "its signature is wrong"); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.Question(t.Context(), q.ID); got.Status != orchestrator.QuestionPending || got.Answer != "" || got.AnsweredBy != "" {
		t.Fatalf("%+v", got)
	}
	sameLines(t, f.pushes(), "device:"+ids[0]+" question "+q.ID)
	answer("forged again")
	f.clock.advance(2 * time.Hour)
	if err := f.RefuseAnswer(t.Context(), q.ID, "forged again", "why"); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.Question(t.Context(), q.ID); got.Status != orchestrator.QuestionExpired {
		t.Fatalf("%+v", got)
	}
}

// Whoever waits is woken by an answer, by an end, and when the question's time has passed, and does not have to look again
// and again: in the bubble no time passes but what somebody sleeps.
func TestWaitQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := orchestrator.Open(t.Context(), orchestrator.Options{
			Path: filepath.Join(t.TempDir(), "mailroom.db"), Bell: orchestrator.NewLocalBell(), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		f := &fixture{Engine: r, t: t}
		f.add(orchestrator.AgentUpdate{Name: "builder"})
		d, _ := f.paired("phone")
		if _, err := f.ActivateDevice(t.Context(), d.ID, d.Recipient); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			act  func(q orchestrator.Question) error
			want orchestrator.QuestionStatus
			took time.Duration
		}{
			"answered": {func(q orchestrator.Question) error {
				_, err := f.AnswerQuestion(t.Context(), q.ID, d.ID, "yes")
				return err
			}, orchestrator.QuestionAnswered, 0},
			"cancelled": {func(q orchestrator.Question) error {
				_, err := f.CancelQuestion(t.Context(), q.ID, "")
				return err
			}, orchestrator.QuestionCancelled, 0},
			"expired":    {func(orchestrator.Question) error { return nil }, orchestrator.QuestionExpired, time.Hour},
			"still open": {func(orchestrator.Question) error { return nil }, orchestrator.QuestionPending, 2 * time.Hour},
		} {
			q := f.question(nil, func(d *orchestrator.QuestionDraft) {
				if c.want == orchestrator.QuestionPending {
					d.TTL = 24 * time.Hour
				}
			})
			heard := make(chan orchestrator.Question)
			go func() {
				got, err := f.WaitQuestion(t.Context(), q.ID, 2*time.Hour)
				if err != nil {
					t.Error(err)
				}
				heard <- got
			}()
			synctest.Wait()
			began := time.Now()
			if err := c.act(q); err != nil {
				t.Fatal(err)
			}
			if got, took := <-heard, time.Since(began).Round(time.Second); got.Status != c.want || took != c.took {
				t.Errorf("%s: %s after %s", name, got.Status, took)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.WaitQuestion(ctx, f.question(nil).ID, time.Hour); err == nil {
			t.Error("a wait outlived its context")
		}
		_, err = f.WaitQuestion(t.Context(), "q-nothing", time.Hour)
		wantCode(t, err, orchestrator.NotFound)
	})
}

// What is not encrypted is checked when it is answered.
func TestClearAnswers(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 1)
	clear := func(body string) func(*orchestrator.QuestionDraft) {
		return func(d *orchestrator.QuestionDraft) { d.Encrypted, d.Body = false, body }
	}
	for _, c := range []struct {
		body, answer string
		ok           bool
	}{
		{`{"question":"?","options":["a","b"]}`, `{"option":1}`, true},
		{`{"question":"?","options":["a","b"]}`, `{"option":2}`, false},
		{`{"question":"?","options":["a","b"]}`, `{"option":-1}`, false},
		{`{"question":"?","options":["a","b"]}`, `{"text":"b"}`, false},
		{`{"question":"?"}`, `{"text":"b"}`, true},
		{`{"question":"?"}`, `{"text":""}`, false},
		{`{"question":"?"}`, `{"text":" \t\n"}`, false},
		{`{"question":"?"}`, `{"option":0}`, false},
		{`{"question":"?"}`, `{"option":0,"text":"x"}`, false},
		{`{"question":"?"}`, `{}`, false},
		{`{"question":"?"}`, `[`, false},
		{`{"question":"?"}`, `{"text":"` + strings.Repeat("x", 2001) + `"}`, false},
		{`{"question":"?"}`, strings.Repeat(" ", 40<<10), false},
	} {
		q := f.question(ids, clear(c.body))
		_, err := f.AnswerQuestion(t.Context(), q.ID, ids[0], c.answer)
		if (err == nil) != c.ok || err != nil && orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%s to %s: %v", c.answer, c.body, err)
		}
	}
}

// An agent in a loop does not reach a person.
func TestOpenQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 1)
	for range 100 {
		f.question(ids)
	}
	d := orchestrator.QuestionDraft{ID: "q-more", Asker: "builder", Body: "x", TTL: time.Hour}
	_, _, err := f.AskUser(t.Context(), d)
	wantCode(t, err, orchestrator.Unavailable)
	d.Asker = "reviewer"
	if _, _, err := f.AskUser(t.Context(), d); err != nil {
		t.Error(err)
	}
	for change, code := range map[string]orchestrator.Code{"asker": orchestrator.UnknownSender, "user": orchestrator.UnknownSender, "ttl": orchestrator.InvalidParams, "body": orchestrator.InvalidParams} {
		d := orchestrator.QuestionDraft{ID: "q-" + change, Asker: "reviewer", Body: "x", TTL: time.Hour}
		switch change {
		case "asker":
			d.Asker = "nobody"
		case "user":
			d.Asker = "user"
		case "ttl":
			d.TTL = 0
		case "body":
			d.Body = strings.Repeat("x", 65<<10)
		}
		_, _, err := f.AskUser(t.Context(), d)
		wantCode(t, err, code)
	}
}

// Retention takes what has ended, with its pushes, and leaves what is open.
func TestQuestionsAreCleared(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 1)
	open := f.question(ids, func(d *orchestrator.QuestionDraft) { d.TTL = 30 * 24 * time.Hour })
	over := f.question(ids)
	if _, _, err := f.AlertUser(t.Context(), orchestrator.AlertDraft{ID: "a-1", Sender: "builder", Body: "x", Devices: ids}); err != nil {
		t.Fatal(err)
	}
	f.pushes()
	if _, err := f.CancelQuestion(t.Context(), over.ID, ""); err != nil {
		t.Fatal(err)
	}
	f.pushes()
	f.clock.advance(8 * 24 * time.Hour)
	if _, err := f.ClearOld(t.Context(), orchestrator.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Question(t.Context(), over.ID); orchestrator.CodeOf(err) != orchestrator.NotFound {
		t.Error(err)
	}
	if q, err := f.Question(t.Context(), open.ID); err != nil || q.Status != orchestrator.QuestionPending {
		t.Errorf("%+v, %v", q, err)
	}
	if list, err := f.Alerts(t.Context(), time.Time{}, 10); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A question that was asked while the clock stood far ahead does not stay open for longer than any can.
func TestQuestionAskedInTheFuture(t *testing.T) {
	t.Parallel()
	f, ids := phoneFixture(t, 1)
	f.clock.advance(400 * 24 * time.Hour)
	q := f.question(ids)
	code, _, err := f.StartPairing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.clock.advance(-400 * 24 * time.Hour)
	_, _, err = f.Pair(t.Context(), orchestrator.PairRequest{Code: code, Name: "phone", Recipient: "age1x"})
	wantCode(t, err, orchestrator.PermissionDenied)
	f.deliver()
	f.clock.advance(orchestrator.MaxTTL)
	f.deliver()
	if got, err := f.Question(t.Context(), q.ID); err != nil || got.Status != orchestrator.QuestionExpired {
		t.Errorf("%+v, %v", got, err)
	}
}
