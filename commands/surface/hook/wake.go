package hook

import (
	"context"
	"fmt"
	"io"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
)

const (
	lookAtHost = time.Second            // how often a waiter looks whether its host still runs
	lookAgain  = 250 * time.Millisecond // how often it looks at a session that works while a message waits
	lookAnyway = time.Minute            // how often it looks though nothing has come: another waiter may have its place
)

// Wake waits until the session of which the host's JSON tells is to be woken by what has come for its agent, and
// returns the text that wakes it. The text has no content of any message: the hook of the turn that begins shows them.
// It is "" if there is nothing to wait for, or not any more: the host is about to end by itself or has ended, another
// process waits for the session already, the session has ended, or messages have caused as many turns as they may.
func (h *Host) Wake(ctx context.Context, env commands.Env, in io.Reader) (nudge string, err error) {
	input, err := ReadInput(ctx, in)
	if err != nil {
		return "", fmt.Errorf("what %s says of the session cannot be read: %w", h.Name, err)
	}
	if h.EndsByItself == nil || h.GivePrompt != nil || input.Session == "" || len(input.Session) > maxSession {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "no session of %s can be woken by this", h.Name)
	}
	host := h.process()
	if h.Elsewhere == nil && !h.Stays() {
		return "", nil
	}
	if err := trusted(ctx, env); err != nil {
		return "", err
	}
	if env.Caller.Name, err = h.Caller(ctx, env); err != nil {
		return "", err
	}
	w, err := hosts.NewWaiter(ctx, env.Ledger,
		hosts.Event{Agent: env.Caller.Name, Program: h.Name, Session: input.Session, Process: host}, false)
	if err != nil || w == nil {
		return "", err
	}
	news, stop, err := reading.Arrivals(ctx, env.Ledger, env.Caller.Name)
	if err != nil {
		return "", err
	}
	defer stop()
	return wait(ctx, w, h.lives(host), news)
}

// Stays reports whether the host's process is there, and does not end with the turn.
func (h *Host) Stays() bool {
	host := h.process()
	return host.PID != 0 && h.EndsByItself != nil && !h.EndsByItself(process.Words(host.PID))
}

// lives returns a function that reports whether a process of the host lives. That of one on another machine lives as long as
// its connection, with which this process ends.
func (h *Host) lives(of process.ID) func() bool {
	if h.Elsewhere != nil {
		return func() bool { return true }
	}
	return of.Here
}

// wait waits until a session is to be woken, and returns the text that does; "" if it is not to be woken any more. It
// looks when there is news.
func wait(ctx context.Context, w *hosts.Waiter, lives func() bool, news <-chan struct{}) (nudge string, err error) {
	for lives() {
		does, n, err := w.Look(ctx)
		switch {
		case orchestrator.CodeOf(err) == orchestrator.Busy:
			does = hosts.Soon
		case err != nil || does == hosts.Over:
			return "", err
		case does == hosts.Wake:
			return nudgeText(n), nil
		}
		if !pause(ctx, lives, news, does == hosts.Soon) {
			break
		}
	}
	return "", nil
}

// pause returns when there is reason to look again, or false when the host or ctx has ended.
func pause(ctx context.Context, lives func() bool, news <-chan struct{}, soon bool) bool {
	ticker := time.NewTicker(lookAtHost)
	defer ticker.Stop()
	again := time.After(lookAnyway)
	if soon {
		again = time.After(lookAgain)
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
			if !lives() {
				return false
			}
			continue
		case <-news:
		case <-again:
		}
		return true
	}
}
