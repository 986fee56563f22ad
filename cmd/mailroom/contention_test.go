package main

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Eight processes send and four deliver on one file. There are no errors, every acknowledged message is delivered
// exactly once and in order, and no process starves.
func TestContention(t *testing.T) {
	t.Parallel()
	const senders, total = 8, 2400
	o := newOffice(t, "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "inboxed",
		"filed --deliver jsonl:"+t.TempDir()+"/filed.jsonl")
	file := o.rows(`SELECT substr(deliver, 7) FROM agents WHERE name = 'filed'`)[0]

	var acknowledged atomic.Int64
	var mu sync.Mutex
	acks := map[string]string{} // message ID to recipient
	share := make([]int, senders)
	var sending, delivering sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			s, err := o.startSender()
			if err != nil {
				t.Error(err)
				return
			}
			for n := 0; acknowledged.Load() < total; n++ {
				to := []string{"inboxed", "filed"}[n%2]
				if err := s.say("a"+string(rune('0'+i)), to, "1"); err != nil {
					t.Error(err)
					break
				}
				id, ok, err := s.heard()
				if !ok {
					t.Errorf("sender %d: %v", i, err)
					break
				}
				mu.Lock()
				acks[id] = to
				mu.Unlock()
				share[i]++
				acknowledged.Add(1)
			}
			s.in.Close()
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("sender %d: %v", i, err)
			}
		})
	}
	done := make(chan struct{})
	for range 4 {
		delivering.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					o.run("deliver_all")
				}
			}
		})
	}
	sending.Wait()
	close(done)
	delivering.Wait()
	o.run("deliver_all")

	inFile := o.lines(file)
	inInbox := map[string]int{}
	for _, id := range o.rows(`SELECT message_id FROM agent_inbox WHERE recipient = 'inboxed'`) {
		inInbox[id]++
	}
	for id, to := range acks {
		if to == "filed" && inFile[id] != 1 || to == "inboxed" && inInbox[id] != 1 {
			t.Errorf("%s to %s: %d lines, %d inbox rows", id, to, inFile[id], inInbox[id])
		}
	}
	if n := len(inFile) + len(inInbox); n != len(acks) {
		t.Errorf("%d delivered; %d acknowledged", n, len(acks))
	}
	if late := o.rows(`SELECT count(*) FROM agent_message WHERE status <> 'delivered'`)[0]; late != "0" {
		t.Errorf("%s messages are not delivered", late)
	}
	for i, n := range share {
		if n < total/senders/4 {
			t.Errorf("sender %d got %d of %d turns: it starves", i, n, total)
		}
	}
	// The order of delivery is the order of sending, per sender and recipient.
	if swapped := o.rows(`
		SELECT a.message_id FROM agent_message a JOIN agent_message b ON b.sender = a.sender
			AND b.recipient = a.recipient AND b.seq > a.seq
		JOIN message_trace ta ON ta.message_id = a.message_id AND ta.event = 'delivered'
		JOIN message_trace tb ON tb.message_id = b.message_id AND tb.event = 'delivered'
		WHERE tb.at < ta.at LIMIT 5`); len(swapped) > 0 {
		t.Errorf("delivered behind a later one: %v", swapped)
	}
	o.checkHistory()
}
