package threads_test

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
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/history"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/threads"
)

// TestPostRows checks that a post is one row for its thread, delivered at once, and one row for each participant that
// it mentions, all with the same multicast id, and each with its own events.
func TestPostRows(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	th := f.Thread("a", "b", "c")
	p := f.MustPost(th.ID, "a", "b", "B", "a", "d", "c", "d", "nobody")
	want.Equal(t, "mentions", fmt.Sprint(p.Mentions), "[b c]")
	want.Equal(t, "ignored", fmt.Sprint(p.Ignored), "[d nobody]")
	want.Rows(t, f.Rows(`SELECT recipient, status, message_id = ?1, payload FROM agent_message
		WHERE multicast_id = ?1 AND multicast_target = ?2 AND thread_id = ?3 AND session_id = 'room' AND sender = 'a'
			ORDER BY seq`,
		p.MessageID, "thread:"+th.ID, th.ID),
		"thread:"+th.ID+` delivered 1 {"content":"hello","mentions":["b","c"]}`,
		`b pending 0 {"content":"hello","mentions":["b","c"]}`, `c pending 0 {"content":"hello","mentions":["b","c"]}`)
	want.Rows(t, f.Rows(`SELECT m.recipient, group_concat(t.event) FROM (SELECT * FROM message_trace ORDER BY id) t
		JOIN agent_message m USING (message_id) GROUP BY m.seq ORDER BY m.seq`),
		"thread:"+th.ID+" created,delivered", "b created", "c created")
	want.Equal(t, "rows in all", f.Rows(`SELECT count(*) FROM agent_message`)[0], "3")
	alone := f.MustPost(th.ID, "b")
	want.Rows(t, f.Rows(`SELECT recipient, status FROM agent_message WHERE multicast_id = ?1`, alone.MessageID),
		"thread:"+th.ID+" delivered")
}

// TestPostsAreNobodysMail checks that a thread's own copy of a post belongs to no mailbox and no backlog, however old
// it is: no delivery, poll, adoption, review, dead letter or wait includes it, the doctor reports nothing, and status
// counts it only as a delivered row.
func TestPostsAreNobodysMail(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	th := f.Thread("a", "b")
	f.Set("backlog.limit", "2")
	for range 5 {
		f.MustPost(th.ID, "a") // more than the limit of a backlog
	}
	posts := func() string {
		return strings.Join(f.Rows(`SELECT * FROM agent_message ORDER BY seq`), "\n") +
			strings.Join(f.Rows(`SELECT * FROM message_trace ORDER BY id`), "\n")
	}
	before := posts()
	for _, age := range []time.Duration{0, time.Hour, 400 * 24 * time.Hour} {
		f.Clock.Advance(age)
		d := f.Deliver()
		want.Equal(t, "delivered", d.Delivered, 0)
		for _, name := range []string{"a", "b"} {
			if ms, _, err := reading.Wait(t.Context(), f.Ledger,
				reading.Options{Recipient: name, Limit: 9}); err != nil || len(ms) != 0 {
				t.Errorf("%s got %v, %v", name, ms, err)
			}
		}
		if _, err := delivery.Poll(t.Context(), f.Ledger, "thread:"+th.ID, 9); err == nil {
			t.Error("a thread can be polled")
		}
		if dead, err := messages.DeadLetters(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 9}); err != nil ||
			dead.Total != 0 {
			t.Errorf("%d dead letters, %v", dead.Total, err)
		}
		s, err := overview.Status(t.Context(), f.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "recipients with a backlog or a name", len(s.Recipients), 2)
		want.Equal(t, "unread", s.Unread, 0)
		want.Equal(t, "overdue", s.Overdue, 0)
		want.Equal(t, "what is planned", s.NextDueAt, "")
		want.Equal(t, "delivered rows", s.Totals["delivered"], 5)
		for _, finding := range overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{}) {
			if finding.Level != "ok" && slices.Contains([]string{"overdue", "failed", "leases", "trace", "counts",
				"configuration"}, finding.Code) {
				t.Errorf("the doctor says %+v", finding)
			}
		}
		if c, err := retention.ClearOld(t.Context(), f.Ledger,
			retention.ClearOptions{OlderThan: time.Minute}); err != nil || c.Deleted != 0 {
			t.Errorf("cleared %+v, %v", c, err)
		}
		if posts() != before {
			t.Fatalf("after %s they are\n%s\nbefore\n%s", age, posts(), before)
		}
	}
}

// TestPostIsAllOrNothing checks that a post is refused as a whole if a mentioned agent's backlog is full, or if a row
// cannot be stored. No row and no event of it remains.
func TestPostIsAllOrNothing(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	th := f.Thread("a", "b", "c")
	f.Set("backlog.limit", "1")
	f.MustPost(th.ID, "a", "c")
	count := func() string {
		return f.Rows(`SELECT (SELECT count(*) FROM agent_message) || ' ' || (SELECT count(*) FROM message_trace)`)[0]
	}
	before := count()
	_, err := f.Post(th.ID, "a", "b", "c")
	want.Code(t, err, orchestrator.Unavailable)
	want.Equal(t, "rows and events after a refusal", count(), before)
	f.Set("backlog.limit", "0")
	f.Forbid("INSERT", "agent_message", `NEW.recipient = 'c'`, "no")
	if _, err = f.Post(th.ID, "a", "b", "c"); err == nil {
		t.Error("a post whose last row cannot be stored succeeded")
	}
	want.Equal(t, "rows and events after a failure", count(), before)
	f.MustPost(th.ID, "a", "b")
}

// TestPostsStayWhileTheThreadIsOpen checks that posts stay while their thread is open, and that their age begins when
// it is closed. Mentions are messages like any other.
func TestPostsStayWhileTheThreadIsOpen(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	open, closed := f.Thread("a", "b"), f.Thread("a", "b")
	f.MustPost(open.ID, "a", "b")
	f.MustPost(closed.ID, "a", "b")
	f.Deliver()
	f.Clock.Advance(30 * 24 * time.Hour)
	if _, err := threads.Close(t.Context(), f.Ledger,
		threads.Change{Session: enginetest.Room, Thread: closed.ID, By: "b"},
		threads.Closing{Summary: "all is said"}); err != nil {
		t.Fatal(err)
	}
	where := func() (live, archived string) {
		if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
			t.Fatal(err)
		}
		const list = `SELECT coalesce(group_concat(recipient), '')
			FROM (SELECT CASE thread_id WHEN ?1 THEN 'open ' ELSE 'closed ' END || CASE recipient WHEN 'b' THEN 'b' ELSE 'post' END AS recipient FROM `
		return f.Rows(list+`agent_message ORDER BY seq) AS r`, open.ID)[0],
			f.Rows(list+`agent_message_archive ORDER BY seq) AS r`, open.ID)[0]
	}
	live, archived := where()
	want.Equal(t, "in the table at the end of the thread", live, "open post,closed post")
	want.Equal(t, "in the archive at the end of the thread", archived, "open b,closed b")
	f.Clock.Advance(8 * 24 * time.Hour)
	live, archived = where()
	want.Equal(t, "in the table a week later", live, "open post")
	want.Equal(t, "in the archive a week later", archived, "open b,closed post,closed b")
	ms, more, err := messages.History(t.Context(), f.Ledger,
		messages.HistoryFilter{ThreadID: closed.ID, Limit: 9, OldestFirst: true})
	if err != nil || more || len(ms) != 1 || ms[0].Recipient != "thread:"+closed.ID {
		t.Errorf("the history of the closed thread is %v, %v, %v", ms, more, err)
	}
}

// TestThreadRights checks who may do what in a thread, in each state of the thread.
func TestThreadRights(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "outsider")
	open, closed := f.Thread("a", "b"), f.Thread("a", "b")
	if _, err := threads.Close(t.Context(), f.Ledger,
		threads.Change{Session: enginetest.Room, Thread: closed.ID, By: "a"}, threads.Closing{}); err != nil {
		t.Fatal(err)
	}
	acts := map[string]func(c threads.Change) error{
		"post": func(c threads.Change) error {
			_, err := threads.Post(t.Context(), f.Ledger,
				threads.PostDraft{Session: c.Session, Thread: c.Thread, Sender: c.By, Mentions: []string{"b"},
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
		return strings.Join(f.Rows(`SELECT * FROM threads`), "\n") +
			strings.Join(f.Rows(`SELECT * FROM thread_participants`), "\n") +
			f.Rows(`SELECT count(*) FROM agent_message`)[0]
	}
	before := everything()
	for name, act := range acts {
		for _, c := range []struct {
			what string
			c    threads.Change
			code orchestrator.Code
		}{
			{"unknown thread", threads.Change{Session: enginetest.Room, Thread: "thread-none", By: "a"},
				orchestrator.NotFound},
			{"another session", threads.Change{Session: "elsewhere", Thread: open.ID, By: "outsider"},
				orchestrator.NotFound},
			{"no participant", threads.Change{Session: enginetest.Room, Thread: open.ID, By: "outsider"},
				orchestrator.NotFound},
			{"closed", threads.Change{Session: enginetest.Room, Thread: closed.ID, By: "a"}, orchestrator.Conflict},
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
	want.Code(t, err, orchestrator.NotFound) // the administrator must name the session
	elsewhere.By = "a"
	for _, act := range []string{"post", "add", "close"} {
		if err := acts[act](elsewhere); err != nil {
			t.Errorf("a participant in another session, %s: %v", act, err)
		}
	}
	open = f.Thread("a", "b")
	_, _, err = threads.AddParticipant(t.Context(), f.Ledger,
		threads.Change{Session: enginetest.Room, Thread: open.ID, By: "a"}, "nobody")
	want.Code(t, err, orchestrator.NotFound)
	_, err = threads.RemoveParticipant(t.Context(), f.Ledger,
		threads.Change{Session: enginetest.Room, Thread: open.ID, By: "a"}, "outsider")
	want.Code(t, err, orchestrator.NotFound)
}

// TestRemovedParticipants checks that a removed participant keeps its messages, cannot post and is not mentioned,
// until it is added again. An agent that is removed leaves its threads.
func TestRemovedParticipants(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	th := f.Thread("a", "b", "c")
	change := threads.Change{Session: enginetest.Room, Thread: th.ID, By: "a"}
	f.MustPost(th.ID, "a", "b")
	after, err := threads.RemoveParticipant(t.Context(), f.Ledger, change, "b")
	if err != nil || after.Has("b") || !after.Has("c") {
		t.Fatalf("%+v, %v", after, err)
	}
	_, err = f.Post(th.ID, "b")
	want.Code(t, err, orchestrator.NotFound)
	want.Equal(t, "ignored", fmt.Sprint(f.MustPost(th.ID, "a", "b", "c").Ignored), "[b]")
	if ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 9}); err != nil ||
		len(ms) != 1 {
		t.Errorf("b has %v, %v", ms, err)
	}
	if _, added, err := threads.AddParticipant(t.Context(), f.Ledger, change, "b"); err != nil || !added {
		t.Errorf("added again: %v, %v", added, err)
	}
	if _, added, err := threads.AddParticipant(t.Context(), f.Ledger, change, "B"); err != nil || added {
		t.Errorf("added twice: %v, %v", added, err)
	}
	f.MustPost(th.ID, "b", "c")
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "c", Force: true}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "ignored once c is forgotten", fmt.Sprint(f.MustPost(th.ID, "b", "c").Ignored), "[c]")
}

// TestPostsRaceAClose checks posts that run at the same time as a close: the close falls between two posts, the posts
// before it are stored as a whole, and those after it are refused.
func TestPostsRaceAClose(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	routers := f.OpenAll(2)
	for round := range 30 {
		th := f.Thread("a", "b", "c")
		type result struct {
			id  string
			err error
		}
		results, closed := make(chan result, 6), make(chan error, 2)
		for i := range cap(results) {
			go func() {
				p, err := threads.Post(t.Context(), routers[i%2].Ledger,
					threads.PostDraft{Session: enginetest.Room, Thread: th.ID, Sender: "a",
						Mentions: []string{"b", "c"},
						Payload:  func([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil }})
				results <- result{p.MessageID, err}
			}()
			if i == round%cap(results) {
				for j := range cap(closed) {
					go func() {
						_, err := threads.Close(t.Context(), routers[j].Ledger,
							threads.Change{Session: enginetest.Room, Thread: th.ID, By: "b"}, threads.Closing{})
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
				want.Code(t, r.err, orchestrator.Conflict)
			}
		}
		if one, two := <-closed, <-closed; (one == nil) == (two == nil) {
			t.Fatalf("of two closes: %v and %v", one, two)
		}
		slices.Sort(stand)
		want.Rows(t, f.Rows(`SELECT multicast_id FROM agent_message WHERE thread_id = ?1 GROUP BY multicast_id
			HAVING count(*) = 3 ORDER BY multicast_id`, th.ID), stand...)
		want.Equal(t, "rows of the thread", f.Rows(`SELECT count(*) FROM agent_message WHERE thread_id = ?1`, th.ID)[0],
			fmt.Sprint(3*len(stand)))
		want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message m JOIN threads h USING (thread_id)
			WHERE thread_id = ?1 AND recipient LIKE 'thread:%' AND m.created_at > h.closed_at`, th.ID), "0")
	}
}

// TestTraceOfPostsReplays checks that the trace of threads and posts replays to the rows of the table. Only the time
// from which retention counts is missing: that of a post in an open thread.
func TestTraceOfPostsReplays(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "what replays a trace reads a file")
	f := enginetest.New(t, "a", "b", "c")
	if err := history.Witness(t.Context(), f.Path); err != nil {
		t.Fatal(err)
	}
	open, closed := f.Thread("a", "b", "c"), f.Thread("a", "b")
	for range 3 {
		f.MustPost(open.ID, "a", "b", "c")
		f.MustPost(closed.ID, "b", "a")
		f.Clock.Advance(time.Second)
		f.Deliver()
	}
	if _, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := threads.Close(t.Context(), f.Ledger, threads.Change{Session: enginetest.Room, Thread: closed.ID},
		threads.Closing{}); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(10 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	result, err := history.Check(t.Context(), history.Evidence{Database: f.Path})
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
	want.Equal(t, "messages", result.Messages, 15)
	want.Equal(t, "posts of an open thread, which have no end yet", ended, 3)
}
