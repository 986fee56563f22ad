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

// isWatched reports whether an event of a kind begins to have a process in the background wake the session.
func (h *Host) isWatched(kind hosts.Kind) bool {
	if h.Inbox != "" {
		return (kind == hosts.Prompted || kind == hosts.Started) && os.Getenv(h.Inbox) != ""
	}
	return h.GivePrompt != nil && kind == hosts.Prompted
}

// watch starts a process in the background that wakes a session through the host's queue or inbox, in place of one that
// did. The process ends with the host and, where its process proves nothing, half an hour after the last words of the
// session's user.
func (h *Host) watch(env *commands.Env, session string) error {
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
	cmd := exec.Command(own, "hook", "queue", "--host", h.Name, "--as", env.Caller.Name, "--db", env.Ledger.Path())
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

// Queue wakes a session of which in tells, as watch wrote it, whenever messages have come for the caller of env and it
// is idle: it puts a prompt into the host's queue, or the session's inbox, that has no content of any message. A hook of the
// turn that begins shows them. It returns when there is nothing to wait for any more, see Wake.
func (h *Host) Queue(ctx context.Context, env commands.Env, in io.Reader) error {
	var of watched
	if err := json.NewDecoder(in).Decode(&of); err != nil {
		return fmt.Errorf("the session to wake cannot be read: %w", err)
	}
	if h.Inbox == "" && (h.GivePrompt == nil || !filepath.IsAbs(h.Program)) {
		return orchestrator.Errorf(orchestrator.InvalidParams, "no session of %s can be woken by this", h.Name)
	}
	if err := trusted(ctx, env); err != nil {
		return err
	}
	event := hosts.Event{Agent: env.Caller.Name, Program: h.Name, Session: of.Session, Process: of.Host}
	if h.Unproved {
		event.Process = process.None()
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
	for {
		nudge, err := wait(ctx, w, of.Host.Here, news)
		if err != nil || nudge == "" {
			return err
		}
		if err := h.give(ctx, of.Session, nudge); err != nil { // it is tried again in a while
			env.Log.Warn("a session could not be woken", "agent", env.Caller.Name, "session", of.Session, "error", err)
		}
	}
}

// give puts a prompt into the host's queue or the session's inbox. An inbox sends no receipt.
func (h *Host) give(ctx context.Context, session, prompt string) error {
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
