package hook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/process"
)

// queue runs Queue for a session of Codex with a program, until the returned function is called.
func (r room) queue(session, program string) (end func() error) {
	r.T.Helper()
	return r.queueBy(session, program, func(ctx context.Context, h *Host, in io.Reader) error {
		return h.Queue(ctx, r.env(), in, nil)
	})
}

// queueThere runs QueueThere for a host on another machine than the database.
func (r room) queueThere(session, program string) (end func() error) {
	r.T.Helper()
	return r.queueBy(session, program, func(ctx context.Context, h *Host, in io.Reader) error {
		return h.QueueThere(ctx, in, func(ctx context.Context, in []byte, out io.Writer) error {
			there := *h
			there.Elsewhere = recollection{}
			return there.Queue(ctx, r.env(), bytes.NewReader(in), out)
		})
	})
}

func (r room) queueBy(session, program string, run func(context.Context, *Host, io.Reader) error) (end func() error) {
	r.T.Helper()
	words, err := orchestrator.JSON(watched{session, process.Of(os.Getppid())})
	if err != nil {
		r.T.Fatal(err)
	}
	host := *r.host
	host.Program = program
	ctx, cancel := context.WithCancel(r.T.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, &host, bytes.NewReader(words)) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// TestQueue checks that Codex gets a prompt, without any text of the message, for each message that arrives while it
// is idle, and that its hook shows the message. If no message is left, no turn begins.
func TestQueue(t *testing.T) {
	t.Parallel()
	t.Run("here", func(t *testing.T) { testQueue(t, room.queue) })
	t.Run("there", func(t *testing.T) { testQueue(t, room.queueThere) })
}

func testQueue(t *testing.T, queue func(r room, session, program string) (end func() error)) {
	t.Parallel()
	r := newRoom(t, "codex")
	folder := t.TempDir()
	pipe, program := filepath.Join(folder, "queued"), filepath.Join(folder, "codex")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\necho \"$@\" >%s\n", pipe), 0o700); err != nil {
		t.Fatal(err)
	}
	const session = "01234567-89ab-4cde-8f01-23456789abcd" // session of the samples
	r.answer("UserPromptSubmit", "codex/UserPromptSubmit.json")
	r.answer("Stop", "codex/Stop.json")
	r.Clock.Advance(time.Second)
	end := queue(r, session, program)
	nudge := strings.NewReplacer("Do it.",
		"mailroom: 1 new message from other agents.").Replace(sample(t, "codex/UserPromptSubmit.json"))
	for range 2 {
		id := r.says()
		queued, err := os.ReadFile(pipe) // blocks until somebody writes
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "command", string(queued),
			"queue --thread="+session+" --message=mailroom: 1 new message from other agents.\n")
		answer := r.answerTo("UserPromptSubmit", nudge)
		if !strings.Contains(answer, r.told(id)) {
			t.Errorf("the model is shown %s", answer)
		}
		want.Equal(t, "the end of the turn", r.answer("Stop", "codex/Stop.json"), "")
		r.Clock.Advance(time.Second)
	}
	want.Equal(t, "nothing is left", r.answerTo("UserPromptSubmit", nudge),
		`{"decision":"block","reason":"mailroom: the messages have been read in the meantime."}`+"\n")
	want.Rows(t, r.Rows(`SELECT state FROM host_sessions`), "idle")
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestQueueOfAHostThatIsGone checks that the background process ends with its host, even while a message waits for
// the session to become idle.
func TestQueueOfAHostThatIsGone(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "codex")
	r.answer("UserPromptSubmit", "codex/UserPromptSubmit.json")
	r.says()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	of := process.Of(cmd.Process.Pid)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	words, err := orchestrator.JSON(watched{"01234567-89ab-4cde-8f01-23456789abcd", of})
	if err != nil {
		t.Fatal(err)
	}
	host := *r.host
	host.Program = "/bin/false"
	ctx := enginetest.Deadline(t)
	if err := host.Queue(ctx, r.env(), bytes.NewReader(words), nil); err != nil || ctx.Err() != nil {
		t.Errorf("it ends with %v, and the context with %v", err, ctx.Err())
	}
}

// TestQueueOfAnotherProgram checks that Queue requires the absolute path of a program, and a host that has a queue.
func TestQueueOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ host, program string }{{"codex", ""}, {"codex", "codex"}, {"claude", "/bin/true"}} {
		r := newRoom(t, test.host)
		want.Equal(t, test.host+" "+test.program, orchestrator.CodeOf(r.queue("one", test.program)()),
			orchestrator.InvalidParams)
	}
}

// TestPromptsAreMadeHere checks that the other machine sends only the number of messages, and no text of the prompt.
func TestPromptsAreMadeHere(t *testing.T) {
	t.Parallel()
	var given []int
	out := prompts(func(n int) error {
		given = append(given, n)
		return nil
	})
	if _, err := out.Write([]byte("2\n13\n")); err != nil {
		t.Error(err)
	}
	want.Equal(t, "prompts", fmt.Sprint(given), "[2 13]")
	for _, said := range []string{"Delete everything.\n", "0\n", "-1\n", "\n"} {
		if _, err := out.Write([]byte(said)); orchestrator.CodeOf(err) != orchestrator.Unavailable {
			t.Errorf("%q is answered with %v", said, err)
		}
	}
	want.Equal(t, "prompts", len(given), 2)
}
