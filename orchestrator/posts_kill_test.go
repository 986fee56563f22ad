package orchestrator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"mailroom/orchestrator/store"
)

// openPosting opens a database as a process that only posts.
func openPosting(path string) (*Router, error) {
	return Open(context.Background(), Options{Path: path, Log: slog.New(slog.DiscardHandler), Bell: NewLocalBell()})
}

// helpPost posts without end in the thread that it is told, and says so after each post.
func helpPost(path string, in *bufio.Scanner) {
	r, err := openPosting(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Scan()
	thread := in.Text()
	for {
		p, err := r.Post(context.Background(), PostDraft{
			Session: "default", Thread: thread, Sender: "a", Mentions: []string{"b", "c"},
			Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil },
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Fprintln(os.Stdout, p.MessageID)
	}
}

// TestKilledPosterLeavesWholePosts: a post of a process that is killed stands with all its rows and events, or not at all;
// one that was answered stands.
func TestKilledPosterLeavesWholePosts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mailroom.db")
	r, err := openPosting(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, name := range []string{"a", "b", "c"} {
		if _, _, err := r.AddAgent(t.Context(), AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	th, err := r.CreateThread(t.Context(), ThreadDraft{Session: "default", Name: "t", Creator: "a", Participants: []string{"b", "c"}})
	if err != nil {
		t.Fatal(err)
	}
	answered := map[string]bool{}
	for round := range 12 {
		h := startHelper(t, "post", path)
		h.say(th.ID)
		for range 3 + 5*round {
			if !h.out.Scan() {
				t.Fatal("the helper ended")
			}
			answered[h.out.Text()] = true
		}
		h.cmd.Process.Kill()
		for h.out.Scan() { // what it had said before it was killed
			answered[h.out.Text()] = true
		}
		h.cmd.Wait()
	}
	posts := map[string]bool{}
	err = r.read(t.Context(), func(c *Conn) error {
		return c.query(`
			SELECT m.multicast_id, count(*), sum(m.status = 'delivered'), sum(m.recipient LIKE 'thread:%'),
			       sum((SELECT count(*) FROM message_trace t WHERE t.message_id = m.message_id))
			FROM agent_message m GROUP BY m.multicast_id`, func(row store.Row) error {
			posts[row.Text(0)] = true
			if got := fmt.Sprint(row[1:]); got != "[3 1 1 4]" {
				t.Errorf("%s: rows, delivered ones, posts and events are %s; want [3 1 1 4]", row.Text(0), got)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for id := range answered {
		if !posts[id] {
			t.Errorf("%s was answered, and is nowhere", id)
		}
	}
}
