package router_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/threads"
)

// TestHelperProcess is what another process does for a test.
func TestHelperProcess(t *testing.T) {
	helper.Run(map[string]func(path string, in *bufio.Scanner){"post": helpPost, "wait": helpWait, "live": helpLive})
}

// openBare opens a database for another process.
func openBare(path string) (*delivery.Engine, error) {
	return router.Open(context.Background(), ledger.Options{Path: path, Log: slog.New(slog.DiscardHandler), Bell: store.NewLocalBell()})
}

// helpPost posts without end in the thread that it is told, and says so after each post.
func helpPost(path string, in *bufio.Scanner) {
	r, err := openBare(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Scan()
	for {
		p, err := threads.Post(context.Background(), r.Ledger, threads.PostDraft{
			Session: room, Thread: in.Text(), Sender: "a", Mentions: []string{"b", "c"},
			Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil },
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.MessageID)
	}
}

// TestKilledPosterLeavesWholePosts: a post of a process that is killed stands with all its rows and events, or not at all;
// one that was answered stands.
func TestKilledPosterLeavesWholePosts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mailroom.db")
	f := &fixture{Engine: openAt(t, path), t: t, path: path}
	for _, name := range []string{"a", "b", "c"} {
		f.add(agents.Update{Name: name})
	}
	th := f.thread("a", "b", "c")
	answered := map[string]bool{}
	for round := range 12 {
		h := helper.Start(t, "post", path)
		h.Say(th.ID)
		for range 3 + 5*round {
			if !h.Out.Scan() {
				t.Fatal("the helper ended")
			}
			answered[h.Out.Text()] = true
		}
		for _, id := range h.Kill() {
			answered[id] = true
		}
	}
	posts := map[string]bool{}
	for _, id := range f.rows(`SELECT DISTINCT multicast_id FROM agent_message`) {
		posts[id] = true
	}
	for id := range answered {
		if !posts[id] {
			t.Errorf("%s was answered, and is nowhere", id)
		}
	}
	wantRows(t, f.rows(`
		SELECT DISTINCT count(*) || ' rows, ' || sum(m.status = 'delivered') || ' delivered, ' || sum(m.recipient LIKE 'thread:%') || ' post, ' ||
		       sum((SELECT count(*) FROM message_trace t WHERE t.message_id = m.message_id)) || ' events'
		FROM agent_message m GROUP BY m.multicast_id`), "3 rows, 1 delivered, 1 post, 4 events")
}
