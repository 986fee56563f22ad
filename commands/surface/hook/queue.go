package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
)

const (
	// attention is how long after the user's last prompt a session is woken, for a host whose process proves nothing.
	// A session whose terminal was closed is also woken, and nobody sees what it does then.
	attention = 30 * time.Minute
	// queueing is the maximum time for the host to queue a prompt.
	queueing = 30 * time.Second
)

// watched is the session that a background process wakes.
type watched struct {
	Session string     `json:"session"`
	Host    process.ID `json:"host"`
}

// Watch starts a background process that wakes the session of an event through the host's queue or inbox, if the
// event is of a kind that requires it. The new process replaces an earlier one. It ends with the host or, if the
// host's process proves nothing, half an hour after the last prompt of the session's user.
func (h *Host) Watch(event string, input *Input, agent, database string) error {
	if input.Subagent != "" || !input.named() || !h.isWatched(h.kindOf(event, input)) {
		return nil
	}
	return h.watch(input.Session, agent, database)
}

// isWatched reports whether an event of a kind starts a background process that wakes the session.
func (h *Host) isWatched(kind hosts.Kind) bool {
	if h.Inbox != "" {
		return (kind == hosts.Prompted || kind == hosts.Started) && os.Getenv(h.Inbox) != ""
	}
	return h.GivePrompt != nil && kind == hosts.Prompted
}

func (h *Host) watch(session, agent, database string) error {
	host := h.Process()
	if host.PID == 0 || h.GivePrompt != nil && (h.Program == "" || h.EndsByItself(process.Words(host.PID))) {
		return nil
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	words, err := orchestrator.JSON(watched{session, host})
	if err != nil {
		return err
	}
	// A pipe keeps the data until the process reads it.
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = out.Write(words)
	out.Close()
	if err != nil {
		return err
	}
	cmd := exec.Command(own, "hook", "queue", "--host", h.Name, "--as", agent, "--db", database)
	if h.Program != "" {
		cmd.Args = append(cmd.Args, "--program", h.Program)
	}
	cmd.Stdin = in
	process.SetApart(cmd) // the host may kill the processes that a hook leaves behind
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// Queue wakes a session whenever messages have arrived for the caller of env and the session is idle. in holds the
// session, as Watch wrote it. Queue puts a prompt, without any content of the messages, into the host's queue or the
// session's inbox, and a hook of the new turn shows the messages. Queue returns when there is nothing more to wait
// for, see Wake.
//
// For a host on another machine, Queue writes a line with the number of messages to out each time: see QueueThere.
func (h *Host) Queue(ctx context.Context, env commands.Env, in io.Reader, out io.Writer) error {
	of, err := h.readWatched(in)
	if err != nil {
		return err
	}
	if err := trusted(ctx, env); err != nil {
		return err
	}
	give := func(n int) error { return h.give(ctx, of.Session, n) }
	if h.Elsewhere != nil {
		give = func(n int) error {
			_, err := fmt.Fprintln(out, n)
			return err
		}
	}
	event := hosts.Event{Agent: env.Caller.Name, Program: h.Name, Session: of.Session, Process: of.Host}
	if h.Unproved || h.Elsewhere != nil {
		event.Process = process.None()
	}
	if h.Unproved {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, attention)
		defer cancel()
	}
	w, err := hosts.NewWaiter(ctx, env.Ledger, event, true)
	if err != nil {
		return err
	}
	news, stop, err := reading.Arrivals(ctx, env.Ledger, env.Caller.Name)
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := h.while(ctx, of.Host)
	defer cancel()
	for {
		n, err := wait(ctx, w, news)
		if err != nil || n == 0 {
			return err
		}
		if err := give(n); err != nil { // tried again later
			env.Log.Warn("cannot wake a session", "agent", env.Caller.Name, "session", of.Session, "error", err)
		}
	}
}

// QueueThere wakes a session for an agent in a database on another machine: wait runs Queue there, with its input and
// its output. QueueThere writes the prompts itself, so that the other machine has no influence on their text.
func (h *Host) QueueThere(ctx context.Context, in io.Reader, wait func(ctx context.Context, in []byte, out io.Writer) error) error {
	of, err := h.readWatched(in)
	if err != nil {
		return err
	}
	ctx, cancel := While(ctx, of.Host)
	defer cancel()
	return wait(ctx, mustJSON(watched{Session: of.Session}), prompts(func(n int) error { return h.give(ctx, of.Session, n) }))
}

// readWatched reads the session that Watch wrote. It returns an error if the host's sessions cannot be woken.
func (h *Host) readWatched(in io.Reader) (of watched, err error) {
	if err := json.NewDecoder(in).Decode(&of); err != nil {
		return of, fmt.Errorf("cannot read which session to wake: %w", err)
	}
	if h.Inbox == "" && (h.GivePrompt == nil || !filepath.IsAbs(h.Program)) {
		return of, orchestrator.Errorf(orchestrator.InvalidParams, "this command cannot wake sessions of %s", h.Name)
	}
	return of, nil
}

// prompts is a writer that calls the function for each line with a number.
type prompts func(n int) error

// Write implements io.Writer. It ignores prompts that the host does not accept: the other machine asks again.
func (give prompts) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || n < 1 {
			return 0, orchestrator.Errorf(orchestrator.Unavailable, "the other machine must send the number of messages, but sent %q", orchestrator.Clip(line))
		}
		give(n)
	}
	return len(b), nil
}

// give puts a prompt with the number of messages into the host's queue or the session's inbox. An inbox sends no
// confirmation.
func (h *Host) give(ctx context.Context, session string, n int) error {
	prompt := nudgeText(n)
	ctx, cancel := context.WithTimeout(ctx, queueing)
	defer cancel()
	if h.Inbox != "" {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", os.Getenv(h.Inbox))
		if err != nil {
			return err
		}
		defer conn.Close()
		if until, has := ctx.Deadline(); has {
			conn.SetWriteDeadline(until)
		}
		_, err = conn.Write(h.ToInbox(session, prompt))
		return err
	}
	return exec.CommandContext(ctx, h.Program, h.GivePrompt(session, prompt)...).Run()
}
