package router_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/history"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/threads"
)

const room = "room" // the session of these tests

// thread makes one of whose participants the first is the creator.
func (f *fixture) thread(participants ...string) threads.Thread {
	f.t.Helper()
	th, err := threads.Create(f.t.Context(), f.Ledger, threads.Draft{Session: room, Name: "a talk", Creator: participants[0], Participants: participants[1:]})
	if err != nil {
		f.t.Fatal(err)
	}
	return th
}

func (f *fixture) post(thread, sender string, mentions ...string) (threads.Posted, error) {
	return threads.Post(f.t.Context(), f.Ledger, threads.PostDraft{
		Session: room, Thread: thread, Sender: sender, Mentions: mentions, Type: "post",
		Payload: func(mentions []string) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"content": "hello", "mentions": mentions})
		},
	})
}

func (f *fixture) mustPost(thread, sender string, mentions ...string) threads.Posted {
	f.t.Helper()
	p, err := f.post(thread, sender, mentions...)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// A post is one row to its thread, delivered at once, and one to each participant that it mentions, all with one
// multicast id, each with its events.
func TestPostRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c", "d")
	th := f.thread("a", "b", "c")
	p := f.mustPost(th.ID, "a", "b", "B", "a", "d", "c", "d", "nobody")
	want(t, "mentions", fmt.Sprint(p.Mentions), "[b c]")
	want(t, "ignored", fmt.Sprint(p.Ignored), "[d nobody]")
	wantRows(t, f.rows(`SELECT recipient, status, message_id = ?1, payload FROM agent_message
		WHERE multicast_id = ?1 AND multicast_target = ?2 AND thread_id = ?3 AND session_id = 'room' AND sender = 'a' ORDER BY seq`,
		p.MessageID, "thread:"+th.ID, th.ID),
		"thread:"+th.ID+` delivered 1 {"content":"hello","mentions":["b","c"]}`,
		`b pending 0 {"content":"hello","mentions":["b","c"]}`, `c pending 0 {"content":"hello","mentions":["b","c"]}`)
	wantRows(t, f.rows(`SELECT m.recipient, group_concat(t.event) FROM (SELECT * FROM message_trace ORDER BY id) t
		JOIN agent_message m USING (message_id) GROUP BY m.seq ORDER BY m.seq`),
		"thread:"+th.ID+" created,delivered", "b created", "c created")
	want(t, "rows in all", f.rows(`SELECT count(*) FROM agent_message`)[0], "3")
	alone := f.mustPost(th.ID, "b")
	wantRows(t, f.rows(`SELECT recipient, status FROM agent_message WHERE multicast_id = ?1`, alone.MessageID), "thread:"+th.ID+" delivered")
}

// A thread's own copy of a post is nobody's mail and nobody's backlog, however old it gets: no delivery, poll, adoption,
// review, dead letter or wait sees it, the doctor has nothing to say, and status counts it among the delivered rows only.
func TestPostsAreNobodysMail(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	th := f.thread("a", "b")
	f.setting("backlog.limit", "2")
	for range 5 {
		f.mustPost(th.ID, "a") // more than any backlog may hold
	}
	posts := func() string {
		return strings.Join(f.rows(`SELECT * FROM agent_message ORDER BY seq`), "\n") + strings.Join(f.rows(`SELECT * FROM message_trace ORDER BY id`), "\n")
	}
	before := posts()
	for _, age := range []time.Duration{0, time.Hour, 400 * 24 * time.Hour} {
		f.clock.advance(age)
		d := f.deliver()
		want(t, "delivered", d.Delivered, 0)
		for _, name := range []string{"a", "b"} {
			if ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: name, Limit: 9}); err != nil || len(ms) != 0 {
				t.Errorf("%s got %v, %v", name, ms, err)
			}
		}
		if _, err := delivery.Poll(t.Context(), f.Ledger, "thread:"+th.ID, 9); err == nil {
			t.Error("a thread can be polled")
		}
		if _, total, err := messages.DeadLetters(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 9}); err != nil || total != 0 {
			t.Errorf("%d dead letters, %v", total, err)
		}
		s, err := overview.Status(t.Context(), f.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "recipients with a backlog or a name", len(s.Recipients), 2)
		want(t, "unread", s.Unread, 0)
		want(t, "overdue", s.Overdue, 0)
		want(t, "what is planned", s.NextDueAt, "")
		want(t, "delivered rows", s.Totals["delivered"], 5)
		for _, finding := range overview.Doctor(t.Context(), f.Ledger, false) {
			if finding.Level != "ok" && finding.Check != "daemon" && finding.Check != "permissions" {
				t.Errorf("the doctor says %+v", finding)
			}
		}
		if c, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{OlderThan: time.Minute}); err != nil || c.Deleted != 0 {
			t.Errorf("cleared %+v, %v", c, err)
		}
		if posts() != before {
			t.Fatalf("after %s they are\n%s\nbefore\n%s", age, posts(), before)
		}
	}
}

// The backlog limit of somebody mentioned refuses the whole post, and so does a row that cannot be stored: no row and no
// event of it stays.
func TestPostIsAllOrNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	th := f.thread("a", "b", "c")
	f.setting("backlog.limit", "1")
	f.mustPost(th.ID, "a", "c")
	count := func() string {
		return f.rows(`SELECT (SELECT count(*) FROM agent_message) || ' ' || (SELECT count(*) FROM message_trace)`)[0]
	}
	before := count()
	_, err := f.post(th.ID, "a", "b", "c")
	wantCode(t, err, orchestrator.Unavailable)
	want(t, "rows and events after a refusal", count(), before)
	f.setting("backlog.limit", "0")
	f.sql(`CREATE TRIGGER no BEFORE INSERT ON agent_message WHEN NEW.recipient = 'c' BEGIN SELECT RAISE(ABORT, 'no'); END`)
	if _, err = f.post(th.ID, "a", "b", "c"); err == nil {
		t.Error("a post whose last row cannot be stored succeeded")
	}
	want(t, "rows and events after a failure", count(), before)
	f.mustPost(th.ID, "a", "b")
}

// Posts stay while their thread is open, and their age begins with its end; mentions are messages like any other.
func TestPostsStayWhileTheThreadIsOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	open, closed := f.thread("a", "b"), f.thread("a", "b")
	f.mustPost(open.ID, "a", "b")
	f.mustPost(closed.ID, "a", "b")
	f.deliver()
	f.clock.advance(30 * 24 * time.Hour)
	if _, err := threads.Close(t.Context(), f.Ledger, threads.Change{Session: room, Thread: closed.ID, By: "b"}, threads.Closing{Summary: "all is said"}); err != nil {
		t.Fatal(err)
	}
	where := func() (live, archived string) {
		if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
			t.Fatal(err)
		}
		const list = `SELECT coalesce(group_concat(recipient), '') FROM (SELECT CASE thread_id WHEN ?1 THEN 'open ' ELSE 'closed ' END || iif(recipient = 'b', 'b', 'post') AS recipient FROM `
		return f.rows(list+`agent_message ORDER BY seq)`, open.ID)[0], f.rows(list+`agent_message_archive ORDER BY seq)`, open.ID)[0]
	}
	live, archived := where()
	want(t, "in the table at the end of the thread", live, "open post,closed post")
	want(t, "in the archive at the end of the thread", archived, "open b,closed b")
	f.clock.advance(8 * 24 * time.Hour)
	live, archived = where()
	want(t, "in the table a week later", live, "open post")
	want(t, "in the archive a week later", archived, "open b,closed post,closed b")
	ms, more, err := messages.History(t.Context(), f.Ledger, messages.HistoryFilter{ThreadID: closed.ID, Limit: 9, OldestFirst: true})
	if err != nil || more || len(ms) != 1 || ms[0].Recipient != "thread:"+closed.ID {
		t.Errorf("the history of the closed thread is %v, %v, %v", ms, more, err)
	}
}

// Who may do what in a thread, in each state of it.
func TestThreadRights(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "outsider")
	open, closed := f.thread("a", "b"), f.thread("a", "b")
	if _, err := threads.Close(t.Context(), f.Ledger, threads.Change{Session: room, Thread: closed.ID, By: "a"}, threads.Closing{}); err != nil {
		t.Fatal(err)
	}
	acts := map[string]func(c threads.Change) error{
		"post": func(c threads.Change) error {
			_, err := threads.Post(t.Context(), f.Ledger, threads.PostDraft{Session: c.Session, Thread: c.Thread, Sender: c.By, Mentions: []string{"b"},
				Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil }})
			return err
		},
		"add": func(c threads.Change) error {
			_, _, err := threads.AddParticipant(t.Context(), f.Ledger, c, "b")
			return err
		},
		"remove": func(c threads.Change) error {
			_, err := threads.RemoveParticipant(t.Context(), f.Ledger, c, "outsider")
			return err
		},
		"close": func(c threads.Change) error {
			_, err := threads.Close(t.Context(), f.Ledger, c, threads.Closing{Summary: "x"})
			return err
		},
	}
	everything := func() string {
		return strings.Join(f.rows(`SELECT * FROM threads`), "\n") + strings.Join(f.rows(`SELECT * FROM thread_participants`), "\n") + f.rows(`SELECT count(*) FROM agent_message`)[0]
	}
	before := everything()
	for name, act := range acts {
		for _, c := range []struct {
			what string
			c    threads.Change
			code orchestrator.Code
		}{
			{"unknown thread", threads.Change{Session: room, Thread: "thread-none", By: "a"}, orchestrator.NotFound},
			{"another session", threads.Change{Session: "elsewhere", Thread: open.ID, By: "outsider"}, orchestrator.NotFound},
			{"no participant", threads.Change{Session: room, Thread: open.ID, By: "outsider"}, orchestrator.NotFound},
			{"closed", threads.Change{Session: room, Thread: closed.ID, By: "a"}, orchestrator.Conflict},
		} {
			if err := act(c.c); orchestrator.CodeOf(err) != c.code || err == nil {
				t.Errorf("%s, %s: %v; want %s", name, c.what, err, c.code)
			}
		}
	}
	if everything() != before {
		t.Errorf("what was refused changed something: %s\nbefore %s", everything(), before)
	}
	elsewhere := threads.Change{Session: "elsewhere", Thread: open.ID}
	_, err := threads.Close(t.Context(), f.Ledger, elsewhere, threads.Closing{Summary: "x"})
	wantCode(t, err, orchestrator.NotFound) // the administrator names the session
	elsewhere.By = "a"
	for _, act := range []string{"post", "add", "close"} {
		if err := acts[act](elsewhere); err != nil {
			t.Errorf("a participant in another session, %s: %v", act, err)
		}
	}
	open = f.thread("a", "b")
	_, _, err = threads.AddParticipant(t.Context(), f.Ledger, threads.Change{Session: room, Thread: open.ID, By: "a"}, "nobody")
	wantCode(t, err, orchestrator.NotFound)
	_, err = threads.RemoveParticipant(t.Context(), f.Ledger, threads.Change{Session: room, Thread: open.ID, By: "a"}, "outsider")
	wantCode(t, err, orchestrator.NotFound)
}

// Who was removed keeps what it got, posts no more and is mentioned no more, until somebody adds it again. An agent that
// is forgotten leaves its threads.
func TestRemovedParticipants(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	th := f.thread("a", "b", "c")
	change := threads.Change{Session: room, Thread: th.ID, By: "a"}
	f.mustPost(th.ID, "a", "b")
	after, err := threads.RemoveParticipant(t.Context(), f.Ledger, change, "b")
	if err != nil || after.Has("b") || !after.Has("c") {
		t.Fatalf("%+v, %v", after, err)
	}
	_, err = f.post(th.ID, "b")
	wantCode(t, err, orchestrator.NotFound)
	want(t, "ignored", fmt.Sprint(f.mustPost(th.ID, "a", "b", "c").Ignored), "[b]")
	if ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 9}); err != nil || len(ms) != 1 {
		t.Errorf("b has %v, %v", ms, err)
	}
	if _, added, err := threads.AddParticipant(t.Context(), f.Ledger, change, "b"); err != nil || !added {
		t.Errorf("added again: %v, %v", added, err)
	}
	if _, added, err := threads.AddParticipant(t.Context(), f.Ledger, change, "B"); err != nil || added {
		t.Errorf("added twice: %v, %v", added, err)
	}
	f.mustPost(th.ID, "b", "c")
	if _, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "c", Force: true}); err != nil {
		t.Fatal(err)
	}
	want(t, "ignored once c is forgotten", fmt.Sprint(f.mustPost(th.ID, "b", "c").Ignored), "[c]")
}

// Posts and a close at the same time: the close falls between two posts, those before it stand, those after it are
// refused, and each post that stands is whole.
func TestPostsRaceAClose(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	routers := f.openAll(2)
	for round := range 30 {
		th := f.thread("a", "b", "c")
		type result struct {
			id  string
			err error
		}
		results, closed := make(chan result, 6), make(chan error, 2)
		for i := range cap(results) {
			go func() {
				p, err := threads.Post(t.Context(), routers[i%2].Ledger, threads.PostDraft{Session: room, Thread: th.ID, Sender: "a", Mentions: []string{"b", "c"},
					Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil }})
				results <- result{p.MessageID, err}
			}()
			if i == round%cap(results) {
				for j := range cap(closed) {
					go func() {
						_, err := threads.Close(t.Context(), routers[j].Ledger, threads.Change{Session: room, Thread: th.ID, By: "b"}, threads.Closing{})
						closed <- err
					}()
				}
			}
		}
		var stand []string
		for range cap(results) {
			if r := <-results; r.err == nil {
				stand = append(stand, r.id)
			} else {
				wantCode(t, r.err, orchestrator.Conflict)
			}
		}
		if one, two := <-closed, <-closed; (one == nil) == (two == nil) {
			t.Fatalf("of two closes: %v and %v", one, two)
		}
		slices.Sort(stand)
		wantRows(t, f.rows(`SELECT multicast_id FROM agent_message WHERE thread_id = ?1 GROUP BY multicast_id HAVING count(*) = 3 ORDER BY multicast_id`, th.ID), stand...)
		want(t, "rows of the thread", f.rows(`SELECT count(*) FROM agent_message WHERE thread_id = ?1`, th.ID)[0], fmt.Sprint(3*len(stand)))
		wantRows(t, f.rows(`SELECT count(*) FROM agent_message m JOIN threads h USING (thread_id)
			WHERE thread_id = ?1 AND recipient LIKE 'thread:%' AND m.created_at > h.closed_at`, th.ID), "0")
	}
}

// The trace of threads and posts replays to what stands in the table. Only the time from which retention counts is not
// in it: that of a post in a live thread.
func TestTraceOfPostsReplays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	if err := history.Witness(t.Context(), f.path); err != nil {
		t.Fatal(err)
	}
	open, closed := f.thread("a", "b", "c"), f.thread("a", "b")
	for range 3 {
		f.mustPost(open.ID, "a", "b", "c")
		f.mustPost(closed.ID, "b", "a")
		f.clock.advance(time.Second)
		f.deliver()
	}
	if _, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := threads.Close(t.Context(), f.Ledger, threads.Change{Session: room, Thread: closed.ID}, threads.Closing{}); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(10 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	result, err := history.Check(t.Context(), history.Evidence{Database: f.path})
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, v := range result.Violations {
		switch {
		case v.Check == "state" && strings.Contains(v.Text, ": ended_at is "):
			ended++
		case v.Check == "trace" || v.Check == "state" || v.Check == "integrity":
			t.Error(v)
		}
	}
	want(t, "messages", result.Messages, 15)
	want(t, "posts of an open thread, which have no end yet", ended, 3)
}
