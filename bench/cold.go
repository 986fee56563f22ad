package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

var cold = Case{
	Name:  "cold",
	Title: "one `mailroom send` from the shell",
	About: "The program starts, sends one message, and ends. It runs 100 times while `mailroom serve` has the database open (`held_ms`), " +
		"and 100 times while no other process has the database open (`alone_ms`). The figures are medians of the time from the start " +
		"of the process to its end. sqlite3 is the command of that name, which inserts the message and its trace row in one " +
		"transaction. `peak_kib` is the largest resident memory of the process, as the median of five runs.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: starts(coldMailroom)},
		{Name: "sqlite3", Run: starts(coldSQLite)},
	},
	Missed: "Page faults cost 20 to 40 µs each on a nested virtual machine such as this one. `mailroom --version` has 680 page faults, a " +
		"send has 1,000, a Go program that prints a line has 180, and sqlite3 has 140. Of the 680, the heap that Go and its packages " +
		"fill before main causes 290, and the code and constants of the program's file cause 240. A send takes about 10.4 million " +
		"instructions (docs/performance.md). `peak_kib` includes the program's file, and a kernel with large pages maps nearly all of " +
		"that file.",
	Targets: []Target{
		{Measure: "held_ms", Against: "sqlite3", Want: 1.6, AtMost: true},
		{Measure: "alone_ms", Against: "sqlite3", Want: 1.8, AtMost: true},
		{Measure: "peak_kib", Against: "sqlite3", Want: 2.5, AtMost: true},
	},
}

// coldMailroom returns a command that sends one message.
func coldMailroom(r *Run, path string, _ int) *exec.Cmd {
	return exec.Command(r.Mailroom, "send", "--db", path, "--sender", "sender", "--recipient", "recipient",
		"--message-type", "task_assignment", "--payload", letterPayload)
}

// coldSQLite returns a command that inserts one message. By default, the sqlite3 command syncs every commit.
func coldSQLite(_ *Run, path string, i int) *exec.Cmd {
	const at = "strftime('%Y-%m-%dT%H:%M:%fZ','now')"
	id := fmt.Sprintf("msg-%s-%d", time.Now().UTC().Format("20060102150405.000000"), i)
	return exec.Command("sqlite3", path, fmt.Sprintf(`PRAGMA busy_timeout=10000; BEGIN IMMEDIATE;
		INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, traced_status,
		    review_at, expires_at)
		VALUES ('%s', 'sender', 'recipient', 'task_assignment', '%s', 'pending', %s, 'pending',
		    strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ','now','+5 minutes'), strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ','now','+7 days'));
		INSERT INTO message_trace (message_id, at, event, new_status, actor) VALUES ('%[1]s', %[3]s, 'created', 'pending', 'shell');
		COMMIT`, id, letterPayload, at))
}

// starts measures the time and the memory of a command that sends one message.
func starts(command func(r *Run, path string, i int) *exec.Cmd) func(*Run) Measures {
	return func(r *Run) Measures {
		path, n, i := r.newMailroom("sender", "recipient"), r.scaled(100, 10), 0
		// The output goes into a file, so that no goroutine of this process runs beside the command to copy it.
		said := must(os.Create(filepath.Join(r.Dir, "said")))
		defer said.Close()
		next := func() *exec.Cmd { i++; return command(r, path, i) }
		once := func() {
			cmd := next()
			cmd.Stdout, cmd.Stderr = said, said
			if err := cmd.Run(); err != nil {
				check(fmt.Errorf("%v: %w; it said %s", cmd.Args, err, must(os.ReadFile(said.Name()))))
			}
		}
		alone := timed(n, func() { r.rest(3 * time.Millisecond) }, once)
		var peaks []int64
		for range 5 {
			peaks = append(peaks, must(peakMemory(next())))
		}
		slices.Sort(peaks)
		r.serve(path)
		// The daemon delivers each message. The pause lets it finish before the next send.
		held := timed(n, func() { r.rest(15 * time.Millisecond) }, once)
		return Measures{
			"alone_ms": milliseconds(alone), "held_ms": milliseconds(held), "peak_kib": float64(peaks[2]),
		}
	}
}

// served is a running `mailroom serve`.
type served struct {
	cmd     *exec.Cmd
	address string // of its endpoint, if it has one
}

// serve starts a daemon with further options, and waits until it is ready. The daemon is stopped at the end of the
// run.
func (r *Run) serve(path string, options ...string) *served {
	cmd := exec.CommandContext(r.ctx, r.Mailroom, append([]string{"serve", "--db", path, "--json"}, options...)...)
	cmd.Dir = filepath.Dir(path)
	out := must(cmd.StdoutPipe())
	check(cmd.Start())
	r.after(func() error { // stop it as an operator does
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("mailroom serve: %w", err)
		}
		return nil
	})
	var hello struct{ Listening string }
	line := must(bufio.NewReader(out).ReadBytes('\n'))
	check(json.Unmarshal(line, &hello))
	return &served{cmd, hello.Listening}
}

// vmField returns the value of a field of /proc/PID/status that is given in kB, such as VmHWM or VmRSS.
func vmField(pid int, name string) (kib int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), name+": %d kB", &kib); n == 1 {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", pid, name)
}
