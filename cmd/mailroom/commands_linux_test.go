package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestCommandsAtATime: however many processes deliver, and though one after the other is killed, no more commands of an
// agent run at a time than it allows. Those of a killed process go on, and count.
func TestCommandsAtATime(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 3} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			o := newOfficeOf(t, "mailroom", folder, "ann", "bob", "cid", "dan")
			command := fmt.Sprintf(`cd '%s' && mkdir running.$$ && ls -d running.* | wc -l >> counts && cat >> lines && rmdir running.$$`, folder)
			o.run("agent", "add", "busy", "--deliver", "exec:"+command, "--concurrency", strconv.Itoa(limit))
			o.run("setting", "set", "delivery.crashes_per_rung", "100")
			const each = 30
			o.sendEach(each, "busy", "ann", "bob", "cid", "dan")
			killed := 0
			for o.rows(`SELECT count(*) FROM agent_message WHERE status IN ('pending', 'retry')`)[0] != "0" && !t.Failed() {
				killed += o.deliverTogether(3, 1+killed%4)
			}
			most := 0
			for _, line := range readLines(t, filepath.Join(folder, "counts")) {
				n, err := strconv.Atoi(strings.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				most = max(most, n)
			}
			if most > limit {
				t.Errorf("%d commands ran at a time", most)
			}
			t.Logf("%d couriers were killed, up to %d commands ran at a time", killed, most)
			if got := o.lines(filepath.Join(folder, "lines")); len(got) != 4*each {
				t.Errorf("%d messages arrived; want %d", len(got), 4*each)
			}
			if got := o.rows(`SELECT message_id FROM agent_message WHERE status <> 'delivered' OR retry_count > 0`); len(got) > 0 {
				t.Errorf("not delivered at the first attempt: %v", got)
			}
			o.checkHistory()
		})
	}
}

// sendEach sends so many messages from each of the senders, in turn.
func (o *office) sendEach(count int, to string, senders ...string) {
	o.t.Helper()
	s, err := o.startSender()
	if err != nil {
		o.t.Fatal(err)
	}
	for i := range count * len(senders) {
		if err := s.say(senders[i%len(senders)], to, "1"); err != nil {
			o.t.Fatal(err)
		}
		if _, ok, err := s.heard(); !ok || err != nil {
			o.t.Fatalf("the sender has ended: %v", err)
		}
	}
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		o.t.Fatal(err)
	}
}

// deliverTogether starts some couriers at once and kills the first of them that has come by so many places. It returns how
// many it killed.
func (o *office) deliverTogether(couriers, places int) (killed int) {
	o.t.Helper()
	office := *o
	office.program = "courier"
	var mu sync.Mutex
	var all sync.WaitGroup
	var commands []*exec.Cmd
	for range couriers {
		cmd := office.command("nowhere", "1")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			o.t.Fatal(err)
		}
		commands = append(commands, cmd)
		all.Go(func() {
			passed := 0
			for lines := bufio.NewScanner(out); lines.Scan(); {
				mu.Lock()
				if passed++; passed >= places && killed == 0 && cmd.Process.Kill() == nil {
					killed++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, cmd := range commands {
		_ = cmd.Wait() // one of them was killed
	}
	return killed
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(text)))
}
