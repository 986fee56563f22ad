package main

import (
	"bufio"
	"context"
	"errors"
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
	Title: "one mailroom send from the shell",
	About: "The program is started, sends one message and ends: 100 times while `mailroom serve` holds the database (held_ms), 100 times " +
		"while nobody has it open (alone_ms); medians from the start of the process to its end. sqlite3 is the command of that name, which " +
		"inserts the message and its trace row in one transaction. peak_kib is its largest resident memory, the median of five runs.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: func(ctx context.Context, env Env) (Measures, error) { return runCold(ctx, env, coldMailroom) }},
		{Name: "sqlite3", Run: func(ctx context.Context, env Env) (Measures, error) { return runCold(ctx, env, coldSQLite) }},
	},
	Missed: "a Go program that does nothing takes 1.4 ms here, and the sqlite3 command 2.4 with its insert. Of the rest, a millisecond is what " +
		"the program's packages set up before main, and the page faults of doing so (750 in all, sqlite3's 180, an empty program's 175); the command " +
		"line, opening the database, statements and indexes, the sync and the close share what is left. What is only read when it is asked for " +
		"(cards, parameters, flags of other commands) has been taken out of the start.",
	Targets: []Target{
		{Measure: "held_ms", Against: "sqlite3", Want: 1.25, AtMost: true},
		{Measure: "alone_ms", Against: "sqlite3", Want: 1.6, AtMost: true},
		{Measure: "peak_kib", Against: "sqlite3", Want: 2.5, AtMost: true},
	},
}

// coldMailroom returns a command that sends one message.
func coldMailroom(env Env, path string, _ int) *exec.Cmd {
	return exec.Command(env.Mailroom, "send", "--db", path, "--sender", "sender", "--recipient", "recipient",
		"--message-type", "task_assignment", "--payload", letterPayload)
}

// coldSQLite returns a command that inserts one message. The sqlite3 command syncs every commit unless told otherwise.
func coldSQLite(_ Env, path string, i int) *exec.Cmd {
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

func runCold(ctx context.Context, env Env, command func(env Env, path string, i int) *exec.Cmd) (Measures, error) {
	path, err := newMailroom(ctx, env, "sender", "recipient")
	if err != nil {
		return nil, err
	}
	n := scaled(env, 100, 10)
	said, err := os.Create(filepath.Join(env.Dir, "said")) // a file, so that nothing of ours runs beside the command
	if err != nil {
		return nil, err
	}
	defer said.Close()
	once := func(i int) error {
		cmd := command(env, path, i)
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%v: %w; %s has what it said", cmd.Args, err, said.Name())
		}
		return nil
	}
	i := 0
	alone, err := timed(n, func() error { return rest(ctx, 3*time.Millisecond) }, func() error { i++; return once(i) })
	if err != nil {
		return nil, err
	}
	var peaks []int64
	for range 5 {
		i++
		peak, err := peakMemory(command(env, path, i))
		if err != nil {
			return nil, err
		}
		peaks = append(peaks, peak)
	}
	slices.Sort(peaks)
	daemon, err := serve(ctx, env, path)
	if err != nil {
		return nil, err
	}
	// The daemon delivers each message; the next is sent when it has done so.
	held, err := timed(n, func() error { return rest(ctx, 15*time.Millisecond) }, func() error { i++; return once(i) })
	if err := errors.Join(err, daemon.stop()); err != nil {
		return nil, err
	}
	return Measures{
		"alone_ms": inMicroseconds(alone) / 1000, "held_ms": inMicroseconds(held) / 1000, "peak_kib": float64(peaks[2]),
	}, nil
}

// served is a running `mailroom serve`.
type served struct{ cmd *exec.Cmd }

// serve starts a daemon and waits until it serves.
func serve(ctx context.Context, env Env, path string) (*served, error) {
	cmd := exec.CommandContext(ctx, env.Mailroom, "serve", "--db", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("mailroom serve says nothing: %w", errors.Join(err, cmd.Wait()))
	}
	return &served{cmd}, nil
}

// stop ends the daemon as an operator does.
func (s *served) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("mailroom serve: %w", err)
	}
	return nil
}

// vmField reads a line of /proc/PID/status that ends with kB: VmHWM, VmRSS.
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
