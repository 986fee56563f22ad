package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// crowd is a set of processes that run all operations at once.
type crowd struct {
	*scene
	names   []string // of agents that read in their inboxes
	engines []*delivery.Engine

	mu   sync.Mutex
	sent map[string][]string // ids by sender and recipient, in the order of sending
	read map[string]int      // how often each was handed out
	own  int                 // copies of messages to a group that includes the sender
}

// Each process does several things at a time, each for an agent of its own and each several times.
const (
	processes = 3
	lanes     = 8
	rounds    = 12
)

// Processes that send, deliver, read, cancel, answer and wait at the same time lose nothing, do nothing twice, and
// keep the order of consecutive sends. None of them gets an error about a conflict with another one.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	manyAtOnce(t, postgrestest.Start(t))
}

func manyAtOnce(t *testing.T, server string) {
	c := &crowd{scene: newSceneAt(t, server, nil, time.Now), sent: map[string][]string{}, read: map[string]int{}}
	for i := range processes {
		c.engines = append(c.engines, c.engine(fmt.Sprint("process", i)))
		for lane := range lanes {
			c.names = append(c.names, senderOf(i, lane))
		}
	}
	c.AddAll(c.names...)
	c.AddWired("wired")
	if _, err := agents.SetGroup(c.ctx, c.a.Ledger, "crew", c.names[:3]); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, e := range c.engines {
		for lane := range lanes {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), uint64(lane)))
				for range rounds {
					c.act(e, senderOf(i, lane), random)
				}
			})
		}
	}
	all.Wait()
	c.end()
}

func senderOf(process, lane int) string { return fmt.Sprintf("agent%d%d", process, lane) }

// try records an error that should not occur.
func (c *crowd) try(what string, err error, codes ...orchestrator.Code) {
	if err != nil && !slices.Contains(codes, orchestrator.CodeOf(err)) {
		c.T.Errorf("%s: %v", what, err)
	}
}

// act runs one operation as an agent. This goroutine is the only one that sends as that agent.
func (c *crowd) act(e *delivery.Engine, name string, random *rand.Rand) {
	to := c.names[random.IntN(len(c.names))]
	switch random.IntN(10) {
	default:
		c.send(e, orchestrator.Draft{Sender: name, Recipient: to})
	case 1:
		c.send(e, orchestrator.Draft{Sender: name, Recipient: "wired", Presence: orchestrator.Working})
	case 2:
		c.send(e, orchestrator.Draft{Sender: name, Recipient: "crew", IdempotencyKey: fmt.Sprint(random.IntN(3))})
	case 3, 4:
		_, err := e.DeliverAll(c.ctx, delivery.Options{ClaimSize: 5})
		c.try("delivering", err)
	case 5, 6:
		c.take(e, name)
	case 7:
		id := c.send(e, orchestrator.Draft{Sender: name, Recipient: to})
		_, err := messages.Cancel(c.ctx, e.Ledger, id, name)
		c.try("cancelling", err, orchestrator.Conflict)
	case 8:
		for _, id := range c.take(e, name) {
			if m, err := messages.Find(c.ctx, e.Ledger, id); err == nil && len(m) == 1 && m[0].MulticastID == "" {
				c.send(e, orchestrator.Draft{Sender: name, Recipient: m[0].Sender, ReplyTo: id})
			} else {
				c.try("finding", err)
			}
		}
	case 9:
		_, _, err := reading.Wait(c.ctx, e.Ledger,
			reading.Options{Recipient: name, Limit: 1, Peek: true, For: []string{to}, Timeout: time.Millisecond})
		c.try("waiting", err, orchestrator.Conflict)
	}
}

// send sends a message and records it. A chain of answers may be too long.
func (c *crowd) send(e *delivery.Engine, d orchestrator.Draft) string {
	d.Type, d.Payload = "note", []byte(`{"n":1}`)
	sent, err := messages.Send(c.ctx, e.Ledger, d)
	c.try("sending", err, orchestrator.Conflict)
	if err != nil || sent.Idempotent {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range sent.MessageIDs {
		if sent.MulticastID != "" && sent.Recipients[i] == d.Sender {
			c.own++ // handed out to nobody
			continue
		}
		pair := d.Sender + " " + sent.Recipients[i]
		c.sent[pair] = append(c.sent[pair], id)
	}
	return sent.MessageID
}

func (c *crowd) take(e *delivery.Engine, name string) (ids []string) {
	ms, _, err := reading.Wait(c.ctx, e.Ledger, reading.Options{Recipient: name, Limit: 5})
	c.try("reading", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range ms {
		ids = append(ids, ms[i].ID)
		c.read[ms[i].ID]++
	}
	return ids
}

// end delivers and reads the remaining messages, and checks the results of all operations.
func (c *crowd) end() {
	c.Deliver()
	for _, name := range c.names {
		for len(c.take(c.a, name)) > 0 {
		}
	}
	cancelled := map[string]bool{}
	for _, id := range c.rows(`SELECT message_id FROM agent_message WHERE status = 'cancelled'`) {
		cancelled[id] = true
	}
	all, arrived := 0, c.Wire.IDs()
	for pair, ids := range c.sent {
		all += len(ids)
		var from, to string
		fmt.Sscan(pair, &from, &to)
		left := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return cancelled[id] })
		inbox := c.rows(`SELECT i.message_id FROM agent_inbox i JOIN agent_message m ON m.message_id = i.message_id
			WHERE i.recipient = ? AND m.sender = ? AND (m.sender <> m.recipient OR m.multicast_id IS NULL)
				ORDER BY i.rowid`, to, from)
		if to == "wired" {
			inbox = slices.DeleteFunc(slices.Clone(arrived), func(id string) bool { return !slices.Contains(ids, id) })
		}
		if !slices.Equal(inbox, left) {
			c.T.Errorf("%s: arrived %v, sent %v", pair, inbox, left)
		}
		for _, id := range left {
			if to != "wired" && c.read[id] != 1 {
				c.T.Errorf("%s was handed out %d times", id, c.read[id])
			}
		}
	}
	want.Equal(c.T, "messages", len(c.rows(`SELECT 1 FROM agent_message`)), all+c.own)
	c.checkTrace()
	want.Lines(c.T, c.faults)
	c.T.Log(all, "messages; commits, rollbacks and deadlocks:",
		c.rows(`SELECT xact_commit, xact_rollback, deadlocks FROM pg_stat_database WHERE datname = current_database()`))
}
