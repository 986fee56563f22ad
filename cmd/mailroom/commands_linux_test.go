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
	"syscall"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
)

// TestCommandsAtATime checks that however many processes deliver, and even if one after the other is killed, no more
// commands of an agent run at the same time than it allows. Commands of a killed process continue, and count.
func TestCommandsAtATime(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "there a killed process is found dead after a while only, see TestTortureOnAServer")
	for _, limit := range []int{1, 3} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			o := newOfficeOf(t, "mailroom", folder, "ann", "bob", "cid", "dan")
			command := fmt.Sprintf(`cd '%s' && mkdir running.$$ && ls -d running.* | wc -l >> counts && cat >> lines && rmdir running.$$`, folder)
			o.run("agent", "add", "busy", "--deliver", "exec:"+command, "--concurrency", strconv.Itoa(limit))
			o.run("setting", "set", "delivery.crashes_per_rung", "100")
			each := helper.Times(64)
			o.sendEach(each, "busy", "ann", "bob", "cid", "dan")
			killed := 0
			for o.rows(`SELECT count(*) FROM agent_message WHERE status IN ('pending', 'retry')`)[0] != "0" &&
				!t.Failed() {
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
			if got := o.rows(`SELECT message_id FROM agent_message WHERE status <> 'delivered'
				OR retry_count > 0`); len(got) > 0 {
				t.Errorf("not delivered at the first attempt: %v", got)
			}
			o.checkHistory()
		})
	}
}

// sendEach sends count messages from each of the senders, in turn.
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

// deliverTogether starts several couriers at the same time and kills the first that has passed a number of places. It
// returns how many it killed.
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

// TestCommandOfAKilledProcess checks that while the command of a killed process runs, no second one is started, and
// that after its end it is started again for the same message.
func TestCommandOfAKilledProcess(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "there a killed process is found dead after a while only, see TestTortureOnAServer")
	folder := t.TempDir()
	started, goOn := fifo(t, filepath.Join(folder, "started")), fifo(t, filepath.Join(folder, "go"))
	o := newOfficeOf(t, "mailroom", folder, "ann")
	o.run("setting", "set", "delivery.crashes_per_rung", "100")
	command := fmt.Sprintf(`cd '%s' && echo "$MAILROOM_MESSAGE_ID" > started && dd bs=1 count=1 < go > taken 2> /dev/null && cat >> lines`, folder)
	o.run("agent", "add", "busy", "--deliver", "exec:"+command)
	o.sendEach(2, "busy", "ann")
	ids := o.rows(`SELECT message_id FROM agent_message ORDER BY seq`)
	starts := make(chan string, 1000)
	go func() {
		for lines := bufio.NewScanner(started); lines.Scan(); {
			starts <- lines.Text()
		}
	}()
	const rounds = 20
	for range rounds {
		id := ""
		for id == "" { // the last command may be about to end
			id = o.courierUntil(starts)
		}
		if id != ids[0] {
			t.Fatalf("a command was started for %s; want %s once more", id, ids[0])
		}
		for range 3 {
			if id := o.courierUntil(starts); id != "" {
				t.Fatalf("a command was started for %s while another was running", id)
			}
		}
		write(t, goOn, "x")
	}
	write(t, goOn, "xx") // for the remaining messages
	o.until("all is delivered", func() bool {
		o.run("deliver_all")
		return o.rows(`SELECT count(*) FROM agent_message WHERE status = 'delivered'`)[0] == "2"
	})
	if got := o.lines(filepath.Join(folder, "lines")); got[ids[0]] != rounds+1 || got[ids[1]] != 1 {
		t.Errorf("the commands got %v; want %s %d times, and %s once", got, ids[0], rounds+1, ids[1])
	}
	want := fmt.Sprintf("%d|0", rounds)
	if got := o.rows(`SELECT crashes, retry_count FROM agent_message ORDER BY seq`)[0]; got != want {
		t.Errorf("crashes and retries are %s; want %s", got, want)
	}
	o.checkHistory()
}

// courierUntil runs a courier until a command is started, kills the courier then, and returns the message that the
// command is for. It returns "" if the courier ended without starting a command.
func (o *office) courierUntil(starts <-chan string) (id string) {
	o.t.Helper()
	office := *o
	office.program = "courier"
	cmd := office.command("nowhere", "1")
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	select {
	case id = <-starts:
		_ = cmd.Process.Kill()
		<-over
	case err := <-over:
		if err != nil {
			o.t.Fatal(err)
		}
	}
	return id
}

// fifo creates a named pipe, and opens both of its ends so that it is never closed.
func fifo(t *testing.T, path string) *os.File {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func write(t *testing.T, file *os.File, text string) {
	t.Helper()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
