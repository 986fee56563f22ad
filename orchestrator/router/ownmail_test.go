package router_test

import (
	"fmt"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/threads"
)

// An agent sees what it sent and got, in the table or in the archive, and posts of its threads; for others it does not exist.
func TestOwnMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c", "d")
	note := f.send("a", "b")
	th := f.thread("a", "b", "c")
	post := f.mustPost(th.ID, "a", "b").MessageID
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		for _, c := range []struct {
			id, agent string
			copies    int
			seen      bool
		}{
			{note, "a", 0, true}, {note, "B", 0, true}, {note, "c", 0, false}, {note, "", 0, true}, {"msg-none", "", 0, false},
			{post, "a", 1, true}, {post, "b", 1, true}, {post, "c", 0, true}, {post, "d", 0, false}, {post, "", 1, true},
		} {
			view, err := threads.OwnMessage(t.Context(), f.Ledger, c.id, c.agent)
			if !c.seen {
				wantCode(t, err, orchestrator.NotFound)
				continue
			}
			if err != nil || view.Message.ID != c.id || len(view.Copies) != c.copies || len(view.Receipts) == 0 {
				t.Errorf("%s: %s for %q: %+v, %v", table, c.id, c.agent, view, err)
			}
			want(t, "thread", view.Thread.ID, view.Message.ThreadID)
		}
		f.archiveAll()
	}
	want(t, "unread", f.count(`agent_message_archive WHERE read_at = ''`), "3")
}

// archiveAll moves all messages to the archive, whatever their age and status.
func (f *fixture) archiveAll() {
	f.t.Helper()
	f.sql(`INSERT INTO agent_message_archive SELECT message_id, sender, recipient, message_type, payload, status, created_at, delivered_at,
		retry_count, max_retries, error_message, seq, traced_status, next_attempt_at, review_at, expires_at, ended_at, ttl_seconds,
		priority, held, summary, context, action, thread_id, session_id, reply_to, hops, multicast_id, multicast_target,
		idempotency_key, read_at, acknowledged_at, lease_token, lease_until, lease_owner, crashes, delivery_marks, trace_id, span_id,
		created_at, origin, not_before FROM agent_message WHERE seq NOT IN (SELECT seq FROM agent_message_archive)`)
	f.sql(`DELETE FROM agent_message`)
}

func (f *fixture) readThread(o threads.ReadOptions) threads.ReadPosts {
	f.t.Helper()
	read, err := threads.Read(f.t.Context(), f.Ledger, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return read
}

// unreadPosts is how many posts of its only thread are unread for an agent.
func (f *fixture) unreadPosts(agent string) int {
	f.t.Helper()
	list, more, err := threads.Own(f.t.Context(), f.Ledger, agent, "", 9)
	if err != nil || more || len(list) != 1 {
		f.t.Fatalf("%v, %v, %v", list, more, err)
	}
	return list[0].Unread
}

// Every post is read once and in order, however small the pieces, and also when a part of the thread is in the archive. Only
// the cursor of the reader moves, and it goes back if the posts could not be shown.
func TestReadThread(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c", "d")
	th := f.thread("a", "b", "c")
	var posted []string
	for i := range 9 {
		posted = append(posted, f.mustPost(th.ID, []string{"a", "b"}[i%2]).MessageID)
		if i == 3 {
			f.archiveAll()
		}
	}
	want(t, "unread for c, archived posts aside", f.unreadPosts("c"), 5)
	for _, limit := range []int{1, 4, 100} {
		var ids []string
		o := threads.ReadOptions{Thread: th.ID, Agent: "c", All: true, Peek: true, Limit: limit}
		for {
			read := f.readThread(o)
			for i := range read.Posts {
				ids = append(ids, read.Posts[i].ID)
			}
			if !read.More {
				break
			}
			o.After = read.Next
		}
		want(t, fmt.Sprint("posts, ", limit, " at a time"), strings.Join(ids, " "), strings.Join(posted, " "))
	}
	lost := f.readThread(threads.ReadOptions{Thread: th.ID, Agent: "C", Limit: 6})
	want(t, "read", len(lost.Posts), 6)
	want(t, "unread for c", f.unreadPosts("c"), 3)
	if err := reading.Unread(t.Context(), f.Ledger, lost.Posts); err != nil {
		t.Fatal(err)
	}
	again := f.readThread(threads.ReadOptions{Thread: th.ID, Agent: "c", Limit: 100})
	want(t, "read again", len(again.Posts), 9)
	want(t, "unread for c", f.unreadPosts("c"), 0)
	want(t, "unread for b", f.unreadPosts("b"), 3)
	if ms, _ := f.takePosts("c", 9); len(ms) != 0 {
		t.Errorf("a wait for any post then takes %v", ms)
	}
	f.readThread(threads.ReadOptions{Thread: th.ID, Agent: "c", All: true, Limit: 2})
	want(t, "unread after the beginning was read anew", f.unreadPosts("c"), 0)
	_, err := threads.Read(t.Context(), f.Ledger, threads.ReadOptions{Thread: th.ID, Agent: "d", Limit: 9})
	wantCode(t, err, orchestrator.NotFound)
}

// Another name is told once in the thread, and to nobody by a message.
func TestRenameThread(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	th := f.thread("a", "b")
	notice := threads.Notice{Type: "thread_renamed", Payload: []byte(`"it has another name"`)}
	for i, by := range []string{"a", "b"} {
		got, renamed, err := threads.Rename(t.Context(), f.Ledger, threads.Change{Session: room, Thread: th.ID, By: by}, "another", notice)
		if err != nil || renamed != (i == 0) || got.Name != "another" {
			t.Errorf("%+v, %v, %v", got, renamed, err)
		}
	}
	want(t, "unread", f.unreadPosts("b"), 1)
	want(t, "messages", f.count(`agent_message`), "1")
	_, _, err := threads.Rename(t.Context(), f.Ledger, threads.Change{Session: room, Thread: th.ID, By: "a"}, "two\nlines", notice)
	wantCode(t, err, orchestrator.InvalidParams)
	f.closeThread(th.ID)
	_, _, err = threads.Rename(t.Context(), f.Ledger, threads.Change{Session: room, Thread: th.ID, By: "a"}, "late", notice)
	wantCode(t, err, orchestrator.Conflict)
}
