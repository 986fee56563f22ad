package reading_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// TestWaitThatEndsLosesNothing checks that a message that arrives while the waiter gives up is not lost: Wait returns
// it, or it stays unread. The end falls into every part of a wait: before the look, during the wait for the write
// lock, and after the commit.
func TestWaitThatEndsLosesNothing(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{nil, {"sender"}} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "sender", "a", "b", "c")
			routers, ctx := f.OpenAll(2), enginetest.Deadline(t)
			returned, left, later := 0, 0, 100
			if f.OnServer() { // a server takes longer to answer
				later = 5000
			}
			for round := range 100 {
				if round%10 == 9 && returned == 0 { // because the machine is slow
					later *= 2
				}
				got := map[string]string{} // agent that got each message
				var mu sync.Mutex
				var all sync.WaitGroup
				for _, agent := range []string{"a", "b", "c", "a"} { // a has two waiters
					own, cancel := context.WithCancel(ctx)
					all.Go(func() {
						o := reading.Options{Recipient: agent, Limit: 5, Timeout: time.Hour, For: names}
						ms, _, err := reading.Wait(own, routers[1].Ledger, o)
						if err == nil == (len(ms) == 0) {
							t.Errorf("round %d: %s got %d messages and %v", round, agent, len(ms), err)
						}
						mu.Lock()
						defer mu.Unlock()
						for i := range ms {
							if was, twice := got[ms[i].ID]; twice {
								t.Errorf("%s went to %s and to %s", ms[i].ID, was, agent)
							}
							got[ms[i].ID] = agent
						}
					})
					all.Go(func() {
						for range round % 10 * later { // a little later in each round
							runtime.Gosched()
						}
						cancel()
					})
				}
				sent := make(chan string, 6)
				for i := range 6 {
					all.Go(func() {
						s, err := messages.Send(ctx, routers[i%2].Ledger,
							orchestrator.Draft{Sender: "sender", Recipient: string(rune('a' + i%3))})
						if err != nil {
							t.Error(err)
						}
						sent <- s.MessageID
					})
				}
				all.Wait()
				returned += len(got)
				for _, agent := range []string{"a", "b", "c"} {
					ms, _, err := reading.Wait(ctx, f.Ledger, reading.Options{Recipient: agent, Limit: 10})
					if err != nil {
						t.Fatal(err)
					}
					left += len(ms)
					for i := range ms {
						if was, twice := got[ms[i].ID]; twice {
							t.Errorf("%s went to %s and was unread", ms[i].ID, was)
						}
						got[ms[i].ID] = agent
					}
				}
				for range 6 {
					if id := <-sent; got[id] == "" {
						t.Fatalf("round %d: %s was lost: %v", round, id,
							f.Rows(`SELECT status, read_at FROM agent_message WHERE message_id = ?1`, id))
					}
				}
				want.Equal(t, "edges that stay behind", f.Rows(countWaits)[0], "0")
			}
			if returned == 0 || left == 0 {
				t.Errorf("%d were returned and %d left: the end never fell into the wait", returned, left)
			}
		})
	}
}
