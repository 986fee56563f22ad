package threads_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/threads"
)

// TestHelperProcess runs the other process of a test.
func TestHelperProcess(t *testing.T) {
	helper.Run(map[string]func(path string, in *bufio.Scanner){"post": helpPost})
}

// helpPost posts in a thread until it is killed, and prints a line after each post. It reads the thread's id from in.
func helpPost(path string, in *bufio.Scanner) {
	r, err := enginetest.OpenInHelper(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Scan()
	for {
		p, err := threads.Post(context.Background(), r.Ledger, threads.PostDraft{
			Session: enginetest.Room, Thread: in.Text(), Sender: "a", Mentions: []string{"b", "c"},
			Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil },
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.MessageID)
	}
}

// TestKilledPosterLeavesWholePosts checks that a post of a killed process is stored with all its rows and events, or
// not at all. A post whose call returned is stored.
func TestKilledPosterLeavesWholePosts(t *testing.T) {
	t.Parallel()
	path := enginetest.Place(t)
	f := &enginetest.Fixture{Engine: enginetest.Open(t, path), T: t, Path: path}
	for _, name := range []string{"a", "b", "c"} {
		f.Add(agents.Update{Name: name})
	}
	th := f.Thread("a", "b", "c")
	answered := map[string]bool{}
	for round := range 12 {
		h := helper.Start(t, "post", path)
		h.Say(th.ID)
		for range 3 + 5*round {
			said, ok := <-h.Lines
			if !ok {
				t.Fatal("the helper ended")
			}
			answered[said] = true
		}
		for _, id := range h.Kill() {
			answered[id] = true
		}
	}
	posts := map[string]bool{}
	for _, id := range f.Rows(`SELECT DISTINCT multicast_id FROM agent_message`) {
		posts[id] = true
	}
	for id := range answered {
		if !posts[id] {
			t.Errorf("%s was answered, and is nowhere", id)
		}
	}
	want.Rows(t, f.Rows(`
		SELECT DISTINCT count(*) || ' rows, ' || count(*) FILTER (WHERE m.status = 'delivered') || ' delivered, ' || count(*) FILTER (WHERE m.recipient LIKE 'thread:%') || ' post, ' ||
		       sum((SELECT count(*) FROM message_trace t WHERE t.message_id = m.message_id)) || ' events'
		FROM agent_message m GROUP BY m.multicast_id`), "3 rows, 1 delivered, 1 post, 4 events")
}
