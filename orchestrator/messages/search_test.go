package messages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/threads"
)

// searchAll searches to the end and returns the numbers (n) of the messages found, and the number of searches.
func searchAll(f *enginetest.Fixture, s messages.Search) (numbers string, searches int) {
	f.T.Helper()
	if s.Says == nil {
		s.Says = func(*orchestrator.Message) bool { return true }
	}
	for {
		found, err := messages.SearchOwn(f.T.Context(), f.Ledger, s)
		if err != nil {
			f.T.Fatal(err)
		}
		searches++
		for i := range found.Messages {
			numbers += strings.Trim(string(found.Messages[i].Payload), `"`) + " "
		}
		switch {
		case found.Complete:
			return strings.TrimSpace(numbers), searches
		case found.BackTo == "" || found.Next.Before == s.From.Before:
			f.T.Fatalf("%+v does not get on from %+v", found, s.From)
		}
		s.From = found.Next
	}
}

// TestSearchOwn checks that a search finds the messages that an agent sent and received and the posts in its threads,
// each once, and nothing of others, in the table or the archive, and for any step size.
func TestSearchOwn(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "team", []string{"b", "c"}); err != nil {
		t.Fatal(err)
	}
	n := 0
	numbered := func(kind string) func(*orchestrator.Draft) {
		n++
		f.Clock.Advance(time.Second)
		return func(d *orchestrator.Draft) { d.Payload, d.Type = fmt.Append(nil, n), kind }
	}
	th := f.Thread("a", "b")
	post := func(sender string, mentions ...string) {
		n++
		_, err := threads.Post(t.Context(), f.Ledger, threads.PostDraft{
			Session: enginetest.Room, Thread: th.ID, Sender: sender, Mentions: mentions, Type: "post",
			Payload: func([]string) (json.RawMessage, error) { return fmt.Append(nil, n), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.Send("a", "b", numbered("x"))    // 1
	f.Send("b", "a", numbered("y"))    // 2
	f.Send("c", "d", numbered("x"))    // 3
	f.Send("a", "team", numbered("x")) // 4
	post("a")                          // 5
	post("b", "a")                     // 6
	since := f.Clock.Now().Add(time.Second).UTC().Format(time.RFC3339)
	f.Send("d", "a", numbered("x")) // 7
	f.Send("a", "a", numbered("y")) // 8
	for _, archived := range []string{"nothing", "all", "the first"} {
		switch archived {
		case "all":
			f.ArchiveAll()
		case "the first":
			f.Send("b", "c", numbered("x")) // 9
			f.Send("c", "a", numbered("x")) // 10
		}
		for _, limit := range []int{1, 3, 100} {
			for _, c := range []struct {
				search messages.Search
				want   string
			}{
				{messages.Search{Agent: "a"}, "8 7 6 5 4 2 1"},
				{messages.Search{Agent: "B"}, "6 5 4 2 1"},
				{messages.Search{Agent: "c"}, "4 3"},
				{messages.Search{Agent: "nobody"}, ""},
				{messages.Search{Agent: "a", Sender: "a"}, "8 5 4 1"},
				{messages.Search{Agent: "a", Sender: "b"}, "6 2"},
				{messages.Search{Agent: "a", Sender: "d"}, "7"},
				{messages.Search{Agent: "a", Type: "x"}, "7 4 1"},
				{messages.Search{Agent: "a", To: "B"}, "4 1"},
				{messages.Search{Agent: "a", To: "team"}, "4"},
				{messages.Search{To: "team"}, "4"},
				{messages.Search{To: "a"}, "8 7 6 2"},
				{messages.Search{Agent: "b", To: "a"}, "6 2"},
				{messages.Search{With: "a"}, "8 7 6 5 4 2 1"},
				{messages.Search{Agent: "b", ThreadID: th.ID}, "6 5"},
				{messages.Search{Agent: "c", ThreadID: th.ID}, ""},
				{messages.Search{Agent: "a", Since: since}, "8 7"},
				{messages.Search{Agent: "a", Says: func(m *orchestrator.Message) bool { return string(m.Payload) == "2" }}, "2"},
			} {
				if archived == "the first" { // messages sent since then come first
					switch s := c.search; {
					case s.Agent == "a" && s.Sender+s.ThreadID+s.To == "" && s.Says == nil && s.Type != "y",
						s.Agent == "" && s.To+s.With == "a":
						c.want = "10 " + c.want
					case s.Agent == "B":
						c.want = "9 " + c.want
					case s.Agent == "c" && s.ThreadID == "":
						c.want = "10 9 " + c.want
					}
				}
				c.search.Limit = limit
				if got, _ := searchAll(f, c.search); got != c.want {
					t.Errorf("%s archived, %d at a time, %+v: %s; want %s", archived, limit, c.search, got, c.want)
				}
			}
		}
	}
	_, err := messages.SearchOwn(t.Context(), f.Ledger, messages.Search{Agent: "a", Since: "yesterday"})
	want.Code(t, err, orchestrator.InvalidParams)
}

// searchedAtOnce is the number of rows of each source that one search examines.
const searchedAtOnce = 50_000

// TestSearchIsBounded checks that a search does a bounded amount of work, whatever others have sent, and reports how
// far it has come. A search that names a sender or a thread does not examine other messages. In the archive, no
// search does.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c", "d")
	f.Send("b", "a", func(d *orchestrator.Draft) { d.Payload, d.ThreadID = []byte(`1`), "t" })
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, traced_status,
		created_at, delivered_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
		SELECT 'x' || i, 'c', 'd', 'note', '"of others"', 'delivered', 'delivered', '2030-01-01T00:00:00.000Z',
			'2030-01-01T00:00:00.000Z' FROM n`)
	looked := 0
	says := func(*orchestrator.Message) bool { looked++; return true }
	for _, c := range []struct {
		search   messages.Search
		searches int
	}{
		{messages.Search{Agent: "a"}, 60000/searchedAtOnce + 1}, {messages.Search{Agent: "a", Sender: "b"}, 1},
		{messages.Search{Agent: "a", ThreadID: "t"}, 1},
	} {
		c.search.Says, c.search.Limit, looked = says, 9, 0
		got, searches := searchAll(f, c.search)
		want.Equal(t, "found", got, "1")
		want.Equal(t, fmt.Sprintf("searches of %+v", c.search.ThreadID+c.search.Sender), searches, c.searches)
		want.Equal(t, "messages looked at", looked, 1)
	}
	f.ArchiveAll()
	got, searches := searchAll(f, messages.Search{Agent: "a", Limit: 9})
	want.Equal(t, "in the archive", fmt.Sprint(got, " after ", searches), "1 after 1")
	// Also among an agent's own messages, each search examines exactly that many.
	looked = 0
	found, err := messages.SearchOwn(t.Context(), f.Ledger,
		messages.Search{Agent: "d", Limit: 9, Says: func(*orchestrator.Message) bool { looked++; return false }})
	if err != nil || found.Complete || found.BackTo == "" || looked != searchedAtOnce {
		t.Errorf("%d looked at, %+v, %v", looked, found, err)
	}
}
