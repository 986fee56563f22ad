package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"mailroom/orchestrator/delivery"
)

// TestPanicsAreInternal checks that no panic, within a command or outside, ends the process with status 2.
func TestPanicsAreInternal(t *testing.T) {
	t.Parallel()
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, words := range []string{"serve --db x", "many lines --said bug"} {
		p := newProgram("")
		p.Open = func(context.Context, string, *slog.Logger) (*delivery.Engine, error) { panic("boom") }
		p.Getenv = func(name string) string {
			return map[string]string{"TRACEPARENT": traceparent, outputVariable: "json"}[name]
		}
		if status := p.run(strings.Fields(words)...); status != 70 {
			t.Errorf("%s: exit status %d; want 70", words, status)
		}
		for _, part := range []string{`"error":"internal"`, "boom", `"trace_id":"0af7651916cd43dd8448eb211c80319c"`} {
			if !strings.Contains(p.out.String(), part) {
				t.Errorf("%s answers %s; want %s in it", words, p.out, part)
			}
		}
	}
}

// TestDaemonIsStoppedWhileStarting checks that a daemon that gets SIGTERM before it serves ends successfully, unless
// it could not open its database anyway.
func TestDaemonIsStoppedWhileStarting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal syscall.Signal
		fault  error
		status int
	}{
		{syscall.SIGTERM, nil, 0},
		{syscall.SIGINT, nil, 130},
		{syscall.SIGTERM, errDisk, 143},
	} {
		p := newProgram("")
		var stop context.CancelCauseFunc
		p.Begin = func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, stop = context.WithCancelCause(ctx)
			return ctx, func() {}
		}
		p.Open = func(ctx context.Context, _ string, _ *slog.Logger) (*delivery.Engine, error) {
			stop(errors.New(c.signal.String() + " signal received")) // format of signal.NotifyContext
			return nil, cmp.Or(c.fault, ctx.Err())
		}
		if status := p.run("serve", "--db", "x"); status != c.status {
			t.Errorf("%v while the database is opened (%v): exit status %d; want %d\n%s", c.signal, c.fault, status,
				c.status, p.err)
		}
	}
}

func TestManNamesEverything(t *testing.T) {
	t.Parallel()
	p := newProgram("")
	if status := p.run("man"); status != 0 {
		t.Fatalf("exit status %d: %s", status, p.out)
	}
	for _, part := range []string{
		".TH MAILROOM 1", ".SS try [WORD] [REST...]", "Tries something.", ".B \\-\\-thread\\-id", ".SS many lines",
		".B \\-\\-log\\-level", "MAILROOM_DB", ".SH EXIT STATUS",
	} {
		if !strings.Contains(p.out.String(), part) {
			t.Errorf("the man page lacks %q", part)
		}
	}
}

// FuzzReadArgs checks that words in any order are sorted without a panic, and that none is lost or added.
func FuzzReadArgs(f *testing.F) {
	for _, seed := range []string{"try red --yes", "--db x many lines --stdin", "try -- --yes", "help try",
		"try --word", "- -- -", "--=x", "try --word=a=b --output"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Fields(text)
		p := newProgram("")
		sorted := sorted(p.readArgs(words))
		count := map[string]int{}
		for _, w := range sorted {
			count[strings.ToLower(strings.ReplaceAll(w, "-", "_"))]++
		}
		for _, w := range words {
			count[strings.ToLower(strings.ReplaceAll(w, "-", "_"))]--
		}
		for w, n := range count {
			// the marker -- may be added or dropped, and the word help may become its flag
			if n != 0 && w != "__" && w != "help" && w != "__help" {
				t.Errorf("%q becomes %q: %q is there %+d times more", words, sorted, w, n)
			}
		}
	})
}

// TestInterrupted checks that an error after Ctrl-C is reported unchanged, unless Ctrl-C caused it.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{"interrupt": "no message can interrupt here", "stopped": "interrupted"} {
		p := newProgram("")
		p.Begin = func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("interrupt signal received"))
			return ctx, func() {}
		}
		if status := p.run("many", "lines", "--said", text); status != 130 ||
			!strings.Contains(p.out.String(), `"message":"`+says+`"`) {
			t.Errorf("%s: exit status %d, %s", text, status, p.out)
		}
	}
}
