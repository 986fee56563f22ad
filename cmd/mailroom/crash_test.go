package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"
)

// crashRounds is how often a sender and a clear_old are killed, and daemonKills how many daemons are in each round.
const crashRounds, daemonKills = 20, 6

// Processes are killed with SIGKILL in a loop, while they send, deliver to inboxes and files, and clear old messages.
// Afterwards every acknowledged message is there exactly once, the file is whole, and the trace agrees with the table.
func TestKill(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "inboxed", "filed --deliver jsonl:"+t.TempDir()+"/filed.jsonl")
	file := o.rows(`SELECT substr(deliver, 7) FROM agents WHERE name = 'filed'`)[0]
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	acks := map[string]string{}
	for round := range crashRounds {
		o.crashRound(random, round, acks)
	}
	o.afterCrash()

	inFile := o.lines(file)
	for id, to := range acks {
		switch to {
		case "filed":
			if inFile[id] != 1 {
				t.Errorf("%s stands %d times in the file", id, inFile[id])
			}
		default:
			if n := o.rows(fmt.Sprintf(`SELECT count(*) FROM agent_inbox WHERE message_id = '%s'`, id))[0]; n != "1" {
				t.Errorf("%s stands %s times in the inbox", id, n)
			}
		}
	}
	for id, n := range inFile {
		if n != 1 {
			t.Errorf("%s stands %d times in the file", id, n)
		}
	}
	t.Logf("%d acknowledged; %s deliveries died with their process", len(acks), o.rows(`SELECT count(*) FROM message_trace WHERE event = 'released'`)[0])
	if left := o.rows(`SELECT count(*) FROM agent_message WHERE status NOT IN ('delivered')`)[0]; left != "0" {
		t.Errorf("%s messages are not delivered", left)
	}
	o.checkHistory()
}

// crashRound runs a sender, a daemon and a clear_old, and kills them after a random number of acknowledged messages.
func (o *office) crashRound(random *rand.Rand, round int, acks map[string]string) {
	o.t.Helper()
	s, err := o.startSender()
	if err != nil {
		o.t.Fatal(err)
	}
	clearing := o.started("clear_old", "--older-than-days", "0")
	daemon := o.started("serve")
	const messages = 300
	var writing sync.WaitGroup
	window := make(chan bool, 30) // messages under way: the sender is in the middle of its work when it is killed
	ended := make(chan struct{})
	writing.Go(func() {
		for i := range messages {
			select {
			case window <- true:
			case <-ended:
				return
			}
			if s.say("a", recipientOf(i), fmt.Sprintf(`{"round":%d,"n":%d}`, round, i)) != nil {
				return // it was killed
			}
		}
	})
	endOfSender, endOfClearing := messages/2+random.IntN(messages/2), random.IntN(messages/2)
	endsOfDaemons := map[int]bool{}
	for range daemonKills {
		endsOfDaemons[random.IntN(endOfSender)] = true
	}
	for i := 0; i < messages; i++ {
		if i == endOfSender {
			s.cmd.Process.Kill()
		}
		if i == endOfClearing {
			clearing.Process.Kill()
		}
		if endsOfDaemons[i] {
			daemon.Process.Kill()
			daemon.Wait()
			daemon = o.started("serve")
		}
		id, ok, err := s.heard()
		if err != nil {
			o.t.Fatalf("round %d: %v", round, err)
		}
		if !ok {
			break
		}
		acks[id] = recipientOf(i)
		<-window
	}
	close(ended)
	for _, p := range []*exec.Cmd{daemon, clearing, s.cmd} {
		p.Process.Kill()
	}
	writing.Wait()
	for _, p := range []*exec.Cmd{daemon, clearing, s.cmd} {
		p.Wait()
	}
	if round%3 == 2 {
		o.afterCrash()
	}
}

// started starts a process.
func (o *office) started(args ...string) *exec.Cmd {
	o.t.Helper()
	cmd := o.command(args...)
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	return cmd
}

func recipientOf(i int) string { return []string{"filed", "inboxed", "filed"}[i%3] }

// afterCrash does what time would: it lets the leases of the dead run out. Then everything is delivered.
func (o *office) afterCrash() {
	o.t.Helper()
	for range 1000 {
		o.rows(`UPDATE agent_message SET lease_until = '2000-01-01T00:00:00.000Z' WHERE lease_token <> ''`)
		o.run("deliver_all")
		o.rows(`UPDATE agent_message SET next_attempt_at = '' WHERE status = 'retry'`)
		if o.rows(`SELECT count(*) FROM agent_message WHERE status IN ('pending','retry')`)[0] == "0" {
			return
		}
	}
	o.t.Error("messages are left that no delivery takes")
}
