package questions_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/store"
)

// events returns the events in the trace of an ID.
func events(f *enginetest.Fixture, id string) string {
	f.T.Helper()
	table, err := f.Query(f.T.Context(),
		fmt.Sprintf(`SELECT group_concat(event || ':' || coalesce(old_status,'') || '>' || coalesce(new_status,''), ' ')
		FROM (SELECT * FROM message_trace WHERE message_id = '%s' ORDER BY id) AS e`, id), store.Bound{Rows: 1})
	if err != nil {
		f.T.Fatal(err)
	}
	return fmt.Sprint(table.Rows.Values()[0][0])
}

// A question is pushed to every device, the first answer ends it, and the other devices are notified of the end.
func TestQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 3)
	q := f.Question(ids)
	want.Lines(t, f.Pushes(), "device:"+ids[0]+" question "+q.ID, "device:"+ids[1]+" question "+q.ID,
		"device:"+ids[2]+" question "+q.ID)
	got, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[1], "sealed answer")
	if err != nil || got.Status != questions.Answered || got.AnsweredBy != ids[1] || got.Answer != "sealed answer" {
		t.Fatalf("%+v, %v", got, err)
	}
	want.Lines(t, f.Pushes(), "device:"+ids[0]+" ended "+q.ID+" answered", "device:"+ids[2]+" ended "+q.ID+" answered")
	_, err = questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], "too late")
	want.Code(t, err, orchestrator.Conflict)
	if _, err := questions.Cancel(t.Context(), f.Ledger, q.ID,
		"builder"); orchestrator.CodeOf(err) != orchestrator.Conflict {
		t.Error(err)
	}
	for range 2 {
		if err := questions.AnswerRead(t.Context(), f.Ledger, q.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := events(f, q.ID), "created:>pending answered:pending>answered read:answered>answered"; got != want {
		t.Errorf("the trace has %q, not %q", got, want)
	}
}

// If several devices and processes answer at the same time, one answer wins.
func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 2)
	q := f.Question(ids)
	other := f.Open()
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
			_, err := questions.Answer(t.Context(), r.Ledger, q.ID, ids[i%2], answer)
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
	got, err := questions.Get(t.Context(), f.Ledger, q.ID)
	if err != nil || len(won) != 1 || got.Answer != won[0] {
		t.Fatalf("%d won; %+v, %v", len(won), got, err)
	}
}

// If a question expires or is cancelled, the devices that received it are notified, and no others.
func TestQuestionEnds(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	waiting := f.Question(ids)
	if _, err := questions.Cancel(t.Context(), f.Ledger, waiting.ID,
		"reviewer"); orchestrator.CodeOf(err) != orchestrator.NotFound {
		t.Errorf("somebody else took it back: %v", err)
	}
	if q, err := questions.Cancel(t.Context(), f.Ledger, waiting.ID, "builder"); err != nil ||
		q.Status != questions.Cancelled {
		t.Fatalf("%+v, %v", q, err)
	}
	want.Lines(t, f.Pushes()) // it was not pushed yet, so no device is notified
	told := f.Question(ids)
	want.Lines(t, f.Pushes(), "device:"+ids[0]+" question "+told.ID)
	f.Clock.Advance(time.Hour)
	want.Lines(t, f.Pushes(), "device:"+ids[0]+" ended "+told.ID+" expired")
	if _, err := questions.Answer(t.Context(), f.Ledger, told.ID, ids[0],
		"late"); orchestrator.CodeOf(err) != orchestrator.Conflict {
		t.Errorf("answered when it had expired: %v", err)
	}
	unseen := f.Question(ids)
	f.Clock.Advance(2 * time.Hour)
	if q, err := questions.Get(t.Context(), f.Ledger, unseen.ID); err != nil || q.Status != questions.Expired {
		t.Fatalf("a look expires it: %+v, %v", q, err)
	}
	if list, err := questions.List(t.Context(), f.Ledger, questions.Filter{Status: questions.Expired}); err != nil ||
		len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A device whose push failed may still have shown the question, so it is notified of the end.
func TestFailedPushIsToldTheEnd(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	f.Wire.Set(enginetest.Failing("500"))
	q := f.Question(ids)
	f.Pushes()
	f.Wire.Set(nil)
	if _, err := questions.Cancel(t.Context(), f.Ledger, q.ID, ""); err != nil {
		t.Fatal(err)
	}
	want.Lines(t, f.Pushes(), "device:"+ids[0]+" ended "+q.ID+" cancelled")
	f.Clock.Advance(10 * time.Minute)
	want.Lines(t, f.Pushes())
}

// A rejected answer makes the question pending again, unless its time is over or another answer has arrived.
func TestRefusedAnswer(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	q := f.Question(ids)
	f.Pushes()
	answer := func(text string) {
		t.Helper()
		if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], text); err != nil {
			t.Fatal(err)
		}
	}
	answer("forged")
	if err := questions.RefuseAnswer(t.Context(), f.Ledger, q.ID, "another", "why"); err != nil {
		t.Fatal(err)
	}
	if got, _ := questions.Get(t.Context(), f.Ledger, q.ID); got.Answer != "forged" {
		t.Fatalf("an answer was refused that is not there: %+v", got)
	}
	if err := questions.RefuseAnswer(t.Context(), f.Ledger, q.ID, "forged", "its signature is wrong"); err != nil {
		t.Fatal(err)
	}
	if got, _ := questions.Get(t.Context(), f.Ledger, q.ID); got.Status != questions.Pending || got.Answer != "" ||
		got.AnsweredBy != "" {
		t.Fatalf("%+v", got)
	}
	want.Lines(t, f.Pushes(), "device:"+ids[0]+" question "+q.ID)
	answer("forged again")
	f.Clock.Advance(2 * time.Hour)
	if err := questions.RefuseAnswer(t.Context(), f.Ledger, q.ID, "forged again", "why"); err != nil {
		t.Fatal(err)
	}
	if got, _ := questions.Get(t.Context(), f.Ledger, q.ID); got.Status != questions.Expired {
		t.Fatalf("%+v", got)
	}
}

// A waiting process is woken by an answer, by an end, and when the question's time is over. It does not need to poll:
// in the bubble, time passes only while goroutines sleep.
func TestWaitQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.NewBubble(t)
		defer f.Close()
		f.Add(agents.Update{Name: "builder"})
		d, _ := f.Pair("phone")
		if _, err := questions.ActivateDevice(t.Context(), f.Ledger, d.ID, d.Recipient); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			act  func(q questions.Question) error
			want questions.Status
			took time.Duration
		}{
			"answered": {func(q questions.Question) error {
				_, err := questions.Answer(t.Context(), f.Ledger, q.ID, d.ID, "yes")
				return err
			}, questions.Answered, 0},
			"cancelled": {func(q questions.Question) error {
				_, err := questions.Cancel(t.Context(), f.Ledger, q.ID, "")
				return err
			}, questions.Cancelled, 0},
			"expired":    {func(questions.Question) error { return nil }, questions.Expired, time.Hour},
			"still open": {func(questions.Question) error { return nil }, questions.Pending, 2 * time.Hour},
		} {
			q := f.Question(nil, func(d *questions.Draft) {
				if c.want == questions.Pending {
					d.TTL = 24 * time.Hour
				}
			})
			heard := make(chan questions.Question)
			go func() {
				got, err := questions.Wait(t.Context(), f.Ledger, q.ID, 2*time.Hour)
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
		if _, err := questions.Wait(ctx, f.Ledger, f.Question(nil).ID, time.Hour); err == nil {
			t.Error("a wait outlived its context")
		}
		_, err := questions.Wait(t.Context(), f.Ledger, "q-nothing", time.Hour)
		want.Code(t, err, orchestrator.NotFound)
	})
}

// An unencrypted answer is checked when it is given.
func TestClearAnswers(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	clear := func(body string) func(*questions.Draft) {
		return func(d *questions.Draft) { d.Encrypted, d.Body = false, body }
	}
	for _, c := range []struct {
		body, answer string
		ok           bool
	}{
		{`{"question":"?","options":["a","b"]}`, `{"option":1}`, true},
		{`{"question":"?","options":["a","b"]}`, `{"option":2}`, false},
		{`{"question":"?","options":["a","b"]}`, `{"option":-1}`, false},
		{`{"question":"?","options":["a","b"]}`, `{"text":"b"}`, false},
		{`{"question":"?","options":["a","b"]}`, `{"option":1,"text":"but later"}`, true},
		{`{"question":"?","options":["a","b"]}`, `{"option":2,"text":"but later"}`, false},
		{`{"question":"?","options":["a","b"]}`, `{"option":1,"text":""}`, false},
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
		q := f.Question(ids, clear(c.body))
		_, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], c.answer)
		if (err == nil) != c.ok || err != nil && orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%s to %s: %v", c.answer, c.body, err)
		}
	}
}

// The questions of an agent in a loop are limited.
func TestOpenQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	for range 100 {
		f.Question(ids)
	}
	d := questions.Draft{ID: "q-more", Asker: "builder", Body: "x", TTL: time.Hour}
	_, _, err := questions.Ask(t.Context(), f.Ledger, d)
	want.Code(t, err, orchestrator.Unavailable)
	d.Asker = "reviewer"
	if _, _, err := questions.Ask(t.Context(), f.Ledger, d); err != nil {
		t.Error(err)
	}
	for change, code := range map[string]orchestrator.Code{"asker": orchestrator.UnknownSender,
		"user": orchestrator.UnknownSender, "ttl": orchestrator.InvalidParams, "body": orchestrator.InvalidParams} {
		d := questions.Draft{ID: "q-" + change, Asker: "reviewer", Body: "x", TTL: time.Hour}
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
		_, _, err := questions.Ask(t.Context(), f.Ledger, d)
		want.Code(t, err, code)
	}
}

// Retention removes ended questions with their pushes, and keeps open ones.
func TestQuestionsAreCleared(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	open := f.Question(ids, func(d *questions.Draft) { d.TTL = 30 * 24 * time.Hour })
	over := f.Question(ids)
	if _, _, err := questions.AlertUser(t.Context(), f.Ledger,
		questions.AlertDraft{ID: "a-1", Sender: "builder", Body: "x", Devices: ids}); err != nil {
		t.Fatal(err)
	}
	f.Pushes()
	if _, err := questions.Cancel(t.Context(), f.Ledger, over.ID, ""); err != nil {
		t.Fatal(err)
	}
	f.Pushes()
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := questions.Get(t.Context(), f.Ledger, over.ID); orchestrator.CodeOf(err) != orchestrator.NotFound {
		t.Error(err)
	}
	if q, err := questions.Get(t.Context(), f.Ledger, open.ID); err != nil || q.Status != questions.Pending {
		t.Errorf("%+v, %v", q, err)
	}
	if list, err := questions.Alerts(t.Context(), f.Ledger, 10); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A question that was asked while the clock was far ahead does not stay open longer than the longest lifetime.
func TestQuestionAskedInTheFuture(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	f.Clock.Advance(400 * 24 * time.Hour)
	q := f.Question(ids)
	code, _, err := questions.StartPairing(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(-400 * 24 * time.Hour)
	_, _, err = questions.Pair(t.Context(), f.Ledger,
		questions.PairRequest{Code: code, Name: "phone", Recipient: "age1x"})
	want.Code(t, err, orchestrator.PermissionDenied)
	f.Deliver()
	f.Clock.Advance(orchestrator.MaxTTL)
	f.Deliver()
	if got, err := questions.Get(t.Context(), f.Ledger, q.ID); err != nil || got.Status != questions.Expired {
		t.Errorf("%+v, %v", got, err)
	}
}
