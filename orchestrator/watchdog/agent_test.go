package watchdog_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/transport"
	"mailroom/orchestrator/watchdog"
)

// TestMain lets the test program play an agent's command, or a process with a watchdog.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "agent":
			playAgent()
		case "watchdog":
			playWatchdog(os.Args[2])
		}
	}
	os.Exit(m.Run())
}

// openDatabase opens a database like another process.
func openDatabase(path string) *delivery.Engine {
	r, err := router.Open(context.Background(), ledger.Options{
		Path: path, Log: slog.New(slog.DiscardHandler),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{},
			"exec": transport.Exec{}},
	})
	check(err)
	return r
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// playWatchdog runs a watchdog for a database until it gets SIGTERM or is killed. It also delivers messages.
func playWatchdog(path string) {
	r := openDatabase(path)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	wakeups, _, err := delivery.Wakeups(ctx, r.Ledger)
	check(err)
	go func() {
		for range wakeups {
			if _, err := r.DeliverAll(ctx, delivery.Options{}); ctx.Err() == nil {
				check(err)
			}
		}
	}()
	fmt.Println("ready")
	check(watchdog.Run(ctx, r.Ledger, slog.New(slog.NewTextHandler(os.Stderr,
		&slog.HandlerOptions{Level: slog.LevelError}))))
	os.Exit(0)
}

// playAgent is an agent's command. It records its start in the file $NOTES, and whether another session is running.
// Then it follows the test's orders over the socket $CONTROL. Without a socket it reads all messages and succeeds.
func playAgent() {
	notes, err := os.OpenFile(os.Getenv("NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	alone, err := os.OpenFile(os.Getenv("NOTES")+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	check(err)
	if err := unix.Flock(int(alone.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		fmt.Fprintln(notes, "overlap")
	}
	fmt.Fprintln(notes, "start")
	fmt.Println("I am", os.Getenv("MAILROOM_AGENT"))
	input, err := io.ReadAll(os.Stdin)
	check(err)
	if os.Getenv("CONTROL") == "" {
		fmt.Fprintln(notes, "left", fork())
		fmt.Fprintln(notes, "read", readMail())
		os.Exit(0)
	}
	line, err := net.Dial("unix", os.Getenv("CONTROL"))
	check(err)
	here, err := os.Getwd()
	check(err)
	fmt.Fprintln(line, os.Getpid(), os.Getenv("MAILROOM_AGENT"), os.Getenv("MAILROOM_MESSAGE_ID"),
		os.Getenv("MAILROOM_UNREAD"),
		len(input), here, os.Getenv("TRACEPARENT"))
	orders := bufio.NewScanner(line)
	for orders.Scan() {
		fmt.Fprintln(line, obey(strings.Fields(orders.Text())))
	}
	os.Exit(99) // the test is over
}

func obey(order []string) any {
	switch order[0] {
	case "read":
		return readMail()
	case "read-one":
		return readSome(1)
	case "print":
		fmt.Println(strings.Join(order[1:], " "))
	case "fork":
		return fork()
	case "flood":
		fmt.Println(strings.Repeat("x", program.MaxLog))
	case "deaf":
		signal.Ignore(unix.SIGTERM)
	case "crash":
		check(unix.Kill(os.Getpid(), unix.SIGKILL))
		select {}
	case "exit":
		status := 0
		fmt.Sscan(order[1], &status)
		os.Exit(status)
	}
	return "done"
}

// fork starts a process that goes on when the session ends, in its group and with its slot.
func fork() (pid int) {
	child := exec.Command("sleep", "1000")
	child.ExtraFiles = []*os.File{os.NewFile(3, "slot")}
	check(child.Start())
	return child.Process.Pid
}

// readMail reads all messages of the agent and returns their number.
func readMail() (n int) {
	for {
		some := readSome(1000)
		if n += some; some == 0 {
			return n
		}
	}
}

// readSome reads at most limit messages.
func readSome(limit int) int {
	r := openDatabase(os.Getenv("MAILROOM_DB"))
	defer r.Close()
	ms, _, err := reading.Wait(context.Background(), r.Ledger,
		reading.Options{Recipient: os.Getenv("MAILROOM_AGENT"), Limit: limit})
	check(err)
	return len(ms)
}

// actor is an agent's session, controlled by the test.
type actor struct {
	t      *testing.T
	line   net.Conn
	says   *bufio.Scanner
	pid    int
	agent  string
	id     string // of the message that it was started for
	unread int
	input  int // bytes of its standard input
	folder string
	parent string // TRACEPARENT
}

// next waits for the start of the next session.
func (f *fixture) next() *actor {
	f.T.Helper()
	line, err := f.control.Accept()
	if err != nil {
		f.T.Fatalf("no session was started: %v", err)
	}
	f.T.Cleanup(func() { line.Close() })
	a := &actor{t: f.T, line: line, says: bufio.NewScanner(line)}
	if _, err := fmt.Sscan(a.hear(), &a.pid, &a.agent, &a.id, &a.unread, &a.input, &a.folder, &a.parent); err != nil {
		f.T.Fatal(err)
	}
	return a
}

func (a *actor) hear() string {
	a.t.Helper()
	if !a.says.Scan() {
		a.t.Fatalf("the session has ended: %v", a.says.Err())
	}
	return a.says.Text()
}

// do makes the session carry out an order that it survives.
func (a *actor) do(order ...any) string {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.line, order...); err != nil {
		a.t.Fatal(err)
	}
	return a.hear()
}

// end makes the session carry out an order that ends it.
func (a *actor) end(order ...any) {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.line, order...); err != nil {
		a.t.Fatal(err)
	}
	a.ended()
}

// ended waits until the session has ended.
func (a *actor) ended() {
	a.t.Helper()
	if a.says.Scan() {
		a.t.Fatalf("the session says %q instead of ending", a.says.Text())
	}
	if err := a.says.Err(); err != nil && !errors.Is(err, unix.ECONNRESET) {
		a.t.Fatal(err)
	}
}
