// Command tests runs `go test`, reports progress, and ends a run in which a test hangs, naming the test. `make test`
// runs it:
//
//	go run ./cmd/tests -race -p 2 ./...
//
// If the first argument is -postgres, it starts a PostgreSQL server and uses that for the tests' databases.
// -postgres=14 selects a version, which `make servers` installs. -pgbouncer=MODE also starts a pgbouncer, through
// which the engine connects.
//
// For a package that passes, it prints one line, as `go test` does. For a package that fails, it prints all output of
// the tests that did not pass. The exit status is 1 if a package failed.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

const (
	// patience is how long a test may print nothing and end no subtest before it counts as hanging. Tests that kill
	// processes take two minutes on two busy cores with the race detector.
	patience = 5 * time.Minute
	// reportEvery is how often progress is reported.
	reportEvery = 30 * time.Second
	// lastWords is how long processes may take to print their goroutines before they are killed.
	lastWords = 20 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args, stopServer, err := onServer(ctx, os.Args[1:])
	if (errors.Is(err, postgrestest.ErrMissing) || errors.Is(err, postgrestest.ErrNoPooler)) && os.Getenv("CI") == "" {
		fmt.Fprintln(os.Stderr, "NOT TESTED with PostgreSQL:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(1)
	}
	status := run(ctx, args, patience, os.Stdout, os.Stderr)
	if err := stopServer(); err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		status = 1
	}
	os.Exit(status)
}

// onServer starts a PostgreSQL server for the tests' databases if the first argument is -postgres or -pgbouncer=MODE,
// and returns the other arguments. stop stops the server.
func onServer(ctx context.Context, args []string) (others []string, stop func() error, err error) {
	if len(args) == 0 {
		return args, func() error { return nil }, nil
	}
	name, value, valued := strings.Cut(args[0], "=")
	pooled := name == "-pgbouncer"
	if name != "-postgres" && !pooled {
		return args, func() error { return nil }, nil
	}
	version := 0 // Debian's version
	if valued && !pooled {
		if version, err = strconv.Atoi(value); err != nil {
			return nil, nil, err
		}
	}
	address, stop, err := postgrestest.Run(ctx, version, postgrestest.Careless)
	if err != nil {
		return nil, nil, err
	}
	if pooled {
		pool, err := postgrestest.RunPool(ctx, address, value)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		address = pool.Past(address)
		stopServer := stop
		stop = func() error { pool.Kill(); return stopServer() }
	}
	return args[1:], stop, os.Setenv(postgrestest.Variable, address)
}

// run runs `go test` with these arguments until it ends, a test hangs or ctx ends.
func run(ctx context.Context, args []string, still time.Duration, stdout io.Writer, stderr *os.File) int {
	cmd := exec.Command("go", goTest(args)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that processes started by tests get signals, too
	cmd.Stderr = stderr
	output, ours, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(stderr, "tests:", err)
		return 1
	}
	defer output.Close()
	cmd.Stdout = ours
	err = cmd.Start()
	ours.Close()
	if err != nil {
		fmt.Fprintln(stderr, "tests:", err)
		return 1
	}
	w := newWatch(stdout, still)
	stopped := w.follow(ctx, output, stderr, func(s syscall.Signal) { syscall.Kill(-cmd.Process.Pid, s) })
	w.rest()
	fmt.Fprintln(stderr, w.state(time.Now()))
	if err = cmd.Wait(); err != nil || stopped {
		return 1
	}
	return 0
}

// follow passes on the output of `go test` until it ends. It ends `go test` if a test hangs or ctx ends, first with
// SIGQUIT, which makes Go programs print their goroutines.
func (w *watch) follow(ctx context.Context, output *os.File, stderr io.Writer,
	send func(syscall.Signal)) (stopped bool) {
	in, line := bufio.NewReader(output), []byte(nil)
	var told, kill time.Time
	for {
		output.SetReadDeadline(time.Now().Add(min(time.Second, w.still/4)))
		part, err := in.ReadBytes('\n')
		now := time.Now()
		if line = append(line, part...); err == nil {
			w.hear(line, now)
			line = line[:0]
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return stopped
		}
		standing := w.standing(now)
		switch {
		case stopped:
			if now.After(kill) {
				send(syscall.SIGKILL)
			}
			continue
		case standing != "":
			fmt.Fprintf(stderr, "FAIL: %s stands still: nothing for %v. What its goroutines do follows\n", standing,
				w.still)
		case ctx.Err() != nil:
			fmt.Fprintln(stderr, "tests: interrupted")
		default:
			if now.Sub(told) >= reportEvery {
				told = now
				fmt.Fprintln(stderr, w.state(now))
			}
			continue
		}
		stopped, kill = true, now.Add(min(lastWords, w.still))
		send(syscall.SIGQUIT)
	}
}

// goTest inserts -json at a valid place: after -C FOLDER, which must come first.
func goTest(args []string) []string {
	in := 0
	if len(args) > 1 && args[0] == "-C" {
		in = 2
	}
	return slices.Concat([]string{"test"}, args[:in], []string{"-json"}, args[in:])
}
