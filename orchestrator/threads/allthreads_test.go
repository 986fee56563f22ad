package threads_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/threads"
)

// TestAllThreads checks that the administrator sees all threads, those with recent posts first and then the newest,
// by any way of paging, and the posts of each thread from the newest backwards.
func TestAllThreads(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	var ids []string
	for i := range 5 {
		f.Clock.Advance(time.Second)
		th, err := threads.Create(t.Context(), f.Ledger,
			threads.Draft{Session: "default", Name: fmt.Sprintf("Thread %d", i), Creator: "a",
				Participants: []string{"b"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, th.ID)
	}
	post := func(id, says string) {
		t.Helper()
		_, err := threads.Post(t.Context(), f.Ledger, threads.PostDraft{Thread: id, Sender: "a", Type: "note",
			Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(says), nil }})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		post(ids[0], fmt.Sprint(i))
	}
	if _, err := threads.Close(t.Context(), f.Ledger, threads.Change{Thread: ids[3], By: "a"},
		threads.Closing{}); err != nil {
		t.Fatal(err)
	}
	all := func(o threads.AllOptions) (names, next string) {
		t.Helper()
		list, next, err := threads.All(t.Context(), f.Ledger, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			names += o.Thread.Name[len("Thread "):]
			if len(o.Last) > 0 {
				names += "=" + string(o.Last[0].Payload)
			}
		}
		return names, next
	}
	names, next := all(threads.AllOptions{Limit: 2})
	want.Equal(t, "the one with posts, and the newest", names, "0=24")
	names, next = all(threads.AllOptions{Limit: 2, After: next})
	want.Equal(t, "the next", names, "32")
	names, next = all(threads.AllOptions{Limit: 2, After: next})
	want.Equal(t, "the last", names+next, "1")
	names, next = all(threads.AllOptions{Limit: 2, Status: threads.Open})
	want.Equal(t, "open ones", names, "0=24")
	names, _ = all(threads.AllOptions{Limit: 2, Status: threads.Open, After: next})
	want.Equal(t, "further open ones", names, "21")
	names, next = all(threads.AllOptions{Limit: 2, Search: "EAD 1"})
	want.Equal(t, "found", names+next, "1")
	post(ids[1], "3")
	names, next = all(threads.AllOptions{Limit: 1})
	want.Equal(t, "where something was posted last", names, "1=3")
	names, next = all(threads.AllOptions{Limit: 1, After: next})
	want.Equal(t, "and before that", names, "0=2")
	names, _ = all(threads.AllOptions{Limit: 9, After: next})
	want.Equal(t, "the others", names, "432")
	if _, _, err := threads.All(t.Context(), f.Ledger,
		threads.AllOptions{Limit: 1, After: "@x"}); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
		t.Errorf("a place that no call returned: %v", err)
	}

	newest := func(after int64) (posts string, read threads.ReadPosts) {
		t.Helper()
		read, err := threads.Read(t.Context(), f.Ledger,
			threads.ReadOptions{Thread: ids[0], Newest: true, After: after, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range read.Posts {
			posts += string(p.Payload)
		}
		return posts, read
	}
	posts, read := newest(0)
	want.Equal(t, "the newest posts", posts, "12")
	want.Equal(t, "there are more", read.More, true)
	posts, read = newest(read.Next)
	want.Equal(t, "the posts before", posts, "0")
	want.Equal(t, "there are more", read.More, false)
}
