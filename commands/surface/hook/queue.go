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
	// attention is how long after the last words of its user a session is woken. Its process proves nothing: a session
	// whose terminal was closed is woken as well, and nobody sees what it does then.
	attention = 30 * time.Minute
	// queueing bounds how long the host may take to queue a prompt.
	queueing = 30 * time.Second
)

// watched is the session that a process in the background wakes.
type watched struct {
	Session string     `json:"session"`
	Host    process.ID `json:"host"`
}

// Watch starts a process in the background that wakes the session of an event through the host's queue or inbox, in place of
// one that did, if such an event begins that. The process ends with the host and, where its process proves nothing, half an
// hour after the last words of the session's user.
func (h *Host) Watch(event string, input *Input, agent, database string) error {
	if input.Subagent != "" || !input.named() || !h.isWatched(h.kindOf(event, input)) {
		return nil
	}
	return h.watch(input.Session, agent, database)
}

// isWatched reports whether an event of a kind begins to have a process in the background wake the session.
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
	// A pipe keeps what is written to it until it is read.
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
	process.SetApart(cmd) // the host may end what a hook leaves
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// Queue wakes a session of which in tells, as Watch wrote it, whenever messages have come for the caller of env and it
// is idle: it puts a prompt into the host's queue, or the session's inbox, that has no content of any message. A hook of the
// turn that begins shows them. It returns when there is nothing to wait for any more, see Wake.
//
// For a host on another machine it writes to out, each time, a line with how many messages there are: see QueueThere.
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
		if err := give(n); err != nil { // it is tried again in a while
			env.Log.Warn("cannot wake a session", "agent", env.Caller.Name, "session", of.Session, "error", err)
		}
	}
}

// QueueThere is Queue for an agent in a database on another machine: wait runs it there, with its input and its output. The
// prompts are made here, so that the other machine has no say in their words.
func (h *Host) QueueThere(ctx context.Context, in io.Reader, wait func(ctx context.Context, in []byte, out io.Writer) error) error {
	of, err := h.readWatched(in)
	if err != nil {
		return err
	}
	ctx, cancel := While(ctx, of.Host)
	defer cancel()
	return wait(ctx, mustJSON(watched{Session: of.Session}), prompts(func(n int) error { return h.give(ctx, of.Session, n) }))
}

// readWatched reads what Watch wrote. Error: no session of the host can be woken by it.
func (h *Host) readWatched(in io.Reader) (of watched, err error) {
	if err := json.NewDecoder(in).Decode(&of); err != nil {
		return of, fmt.Errorf("cannot read which session to wake: %w", err)
	}
	if h.Inbox == "" && (h.GivePrompt == nil || !filepath.IsAbs(h.Program)) {
		return of, orchestrator.Errorf(orchestrator.InvalidParams, "this command cannot wake sessions of %s", h.Name)
	}
	return of, nil
}

// prompts gives a prompt for each line with a number that is written to it.
type prompts func(n int) error

// Write implements io.Writer. A prompt that the host does not take is no error: the other side asks for it again.
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

// give puts a prompt, which says how many messages there are, into the host's queue or the session's inbox. An inbox sends
// no receipt.
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
