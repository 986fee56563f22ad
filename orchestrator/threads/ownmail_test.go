package threads_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/threads"
)

// TestOwnMessage checks that an agent sees the messages that it sent and received, in the table or in the archive,
// and the posts of its threads. For other agents these messages do not exist.
func TestOwnMessage(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	note := f.Send("a", "b")
	th := f.Thread("a", "b", "c")
	post := f.MustPost(th.ID, "a", "b").MessageID
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		for _, c := range []struct {
			id, agent string
			copies    int
			seen      bool
		}{
			{note, "a", 0, true}, {note, "B", 0, true}, {note, "c", 0, false}, {note, "", 0, true},
			{"msg-none", "", 0, false},
			{post, "a", 1, true}, {post, "b", 1, true}, {post, "c", 0, true}, {post, "d", 0, false},
			{post, "", 1, true},
		} {
			view, err := threads.OwnMessage(t.Context(), f.Ledger, c.id, c.agent)
			if !c.seen {
				want.Code(t, err, orchestrator.NotFound)
				continue
			}
			if err != nil || view.Message.ID != c.id || len(view.Copies) != c.copies || len(view.Receipts) == 0 {
				t.Errorf("%s: %s for %q: %+v, %v", table, c.id, c.agent, view, err)
			}
			want.Equal(t, "thread", view.Thread.ID, view.Message.ThreadID)
		}
		f.ArchiveAll()
	}
	want.Equal(t, "unread", f.Count(`agent_message_archive WHERE read_at = ''`), "3")
}

func readThread(f *enginetest.Fixture, o threads.ReadOptions) threads.ReadPosts {
	f.T.Helper()
	read, err := threads.Read(f.T.Context(), f.Ledger, o)
	if err != nil {
		f.T.Fatal(err)
	}
	return read
}

// unreadPosts returns the number of unread posts of an agent in its only thread.
func unreadPosts(f *enginetest.Fixture, agent string) int {
	f.T.Helper()
	list, more, err := threads.Own(f.T.Context(), f.Ledger, agent, "", 0, 9)
	if err != nil || more || len(list) != 1 {
		f.T.Fatalf("%v, %v, %v", list, more, err)
	}
	return list[0].Unread
}

// TestReadThread checks that every post is read once and in order, in pieces of any size, and also when a part of the
// thread is in the archive. Only the reader's cursor moves, and it moves back if the posts could not be shown.
func TestReadThread(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	th := f.Thread("a", "b", "c")
	var posted []string
	for i := range 9 {
		posted = append(posted, f.MustPost(th.ID, []string{"a", "b"}[i%2]).MessageID)
		if i == 3 {
			f.ArchiveAll()
		}
	}
	want.Equal(t, "unread for c, archived posts aside", unreadPosts(f, "c"), 5)
	for _, limit := range []int{1, 4, 100} {
		var ids []string
		o := threads.ReadOptions{Thread: th.ID, Agent: "c", All: true, Peek: true, Limit: limit}
		for {
			read := readThread(f, o)
			for i := range read.Posts {
				ids = append(ids, read.Posts[i].ID)
			}
			if !read.More {
				break
			}
			o.After = read.Next
		}
		want.Equal(t, fmt.Sprint("posts, ", limit, " at a time"), strings.Join(ids, " "), strings.Join(posted, " "))
	}
	lost := readThread(f, threads.ReadOptions{Thread: th.ID, Agent: "C", Limit: 6})
	want.Equal(t, "read", len(lost.Posts), 6)
	want.Equal(t, "unread for c", unreadPosts(f, "c"), 3)
	if err := reading.Unread(t.Context(), f.Ledger, lost.Posts); err != nil {
		t.Fatal(err)
	}
	again := readThread(f, threads.ReadOptions{Thread: th.ID, Agent: "c", Limit: 100})
	want.Equal(t, "read again", len(again.Posts), 9)
	want.Equal(t, "unread for c", unreadPosts(f, "c"), 0)
	want.Equal(t, "unread for b", unreadPosts(f, "b"), 3)
	if ms, _ := f.TakePosts("c", 9); len(ms) != 0 {
		t.Errorf("a wait for any post then takes %v", ms)
	}
	readThread(f, threads.ReadOptions{Thread: th.ID, Agent: "c", All: true, Limit: 2})
	want.Equal(t, "unread after the beginning was read anew", unreadPosts(f, "c"), 0)
	_, err := threads.Read(t.Context(), f.Ledger, threads.ReadOptions{Thread: th.ID, Agent: "d", Limit: 9})
	want.Code(t, err, orchestrator.NotFound)
}

// TestUnreadPostsAfterRetention checks that an agent that has read its copy of a post has read the post, also when
// the copy is archived.
func TestUnreadPostsAfterRetention(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	f.MustPost(f.Thread("a", "b", "c").ID, "a", "c")
	f.Take("c")
	want.Equal(t, "unread for c", unreadPosts(f, "c"), 0)
	f.Clock.Advance(8 * 24 * time.Hour)
	want.Equal(t, "archived", f.Clear(retention.ClearOptions{}).Deleted, 1)
	want.Equal(t, "unread for c", unreadPosts(f, "c"), 0)
	want.Equal(t, "unread for b", unreadPosts(f, "b"), 1)
}

// TestRenameThread checks that a new name is posted once in the thread, and sent to no agent as a message.
func TestRenameThread(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	th := f.Thread("a", "b")
	notice := threads.Notice{Type: "thread_renamed", Payload: []byte(`"it has another name"`)}
	for i, by := range []string{"a", "b"} {
		got, renamed, err := threads.Rename(t.Context(), f.Ledger,
			threads.Change{Session: enginetest.Room, Thread: th.ID, By: by}, "another", notice)
		if err != nil || renamed != (i == 0) || got.Name != "another" {
			t.Errorf("%+v, %v, %v", got, renamed, err)
		}
	}
	want.Equal(t, "unread", unreadPosts(f, "b"), 1)
	want.Equal(t, "messages", f.Count(`agent_message`), "1")
	_, _, err := threads.Rename(t.Context(), f.Ledger, threads.Change{Session: enginetest.Room, Thread: th.ID, By: "a"},
		"two\nlines", notice)
	want.Code(t, err, orchestrator.InvalidParams)
	f.CloseThread(th.ID)
	_, _, err = threads.Rename(t.Context(), f.Ledger, threads.Change{Session: enginetest.Room, Thread: th.ID, By: "a"},
		"late", notice)
	want.Code(t, err, orchestrator.Conflict)
}
