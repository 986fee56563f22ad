// Command tests runs `go test`, says meanwhile what is going on, and ends a run in which a test stands still, naming
// the test. `make test` runs it:
//
//	go run ./cmd/tests -race -p 2 ./...
//
// With -postgres in front of all others it starts a PostgreSQL server first, and the tests' databases are there; with
// -postgres=14 one of that version, which `make servers` installs; with -pgbouncer=MODE, a pgbouncer before it, through
// which the engine reaches them.
//
// What it prints of a package that passes is one line, as `go test` has it; of one that fails, all that the tests said
// that did not pass. The exit status is 1 when one failed.
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
	// patience is how long a test may say nothing, and end no subtest, before it counts as standing still. Tests that
	// kill processes take two minutes on two busy cores with the race detector.
	patience = 5 * time.Minute
	// reportEvery is how often a run that goes on is told of.
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

// onServer starts a PostgreSQL server on which the tests' databases are from now on, if the first argument is -postgres
// or -pgbouncer=MODE, and returns the others. stop ends it.
func onServer(ctx context.Context, args []string) (others []string, stop func() error, err error) {
	if len(args) == 0 {
		return args, func() error { return nil }, nil
	}
	name, value, valued := strings.Cut(args[0], "=")
	pooled := name == "-pgbouncer"
	if name != "-postgres" && !pooled {
		return args, func() error { return nil }, nil
	}
	version := 0 // Debian's
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

// run runs `go test` with these arguments until it ends, a test stands still or ctx ends.
func run(ctx context.Context, args []string, still time.Duration, stdout io.Writer, stderr *os.File) int {
	cmd := exec.Command("go", goTest(args)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what the tests started can be told, too
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

// follow passes on what `go test` says until that ends, and ends it when a test stands still or ctx is over: first with
// SIGQUIT, at which Go programs print what their goroutines do.
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

// goTest puts -json where it may stand: behind -C FOLDER, which has to come first.
func goTest(args []string) []string {
	in := 0
	if len(args) > 1 && args[0] == "-C" {
		in = 2
	}
	return slices.Concat([]string{"test"}, args[:in], []string{"-json"}, args[in:])
}
