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
		return "", fmt.Errorf("cannot read the session data from %s: %w", h.Name, err)
	}
	if h.EndsByItself == nil || h.GivePrompt != nil || !input.named() {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "this command cannot wake sessions of %s", h.Name)
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
	ctx, cancel := h.while(ctx, host)
	defer cancel()
	n, err := wait(ctx, w, news)
	return nudgeText(n), err
}

// Stays reports whether the host's process is there, and does not end with the turn.
func (h *Host) Stays() bool {
	host := h.process()
	return host.PID != 0 && h.EndsByItself != nil && !h.EndsByItself(process.Words(host.PID))
}

// while is While, but for a host on another machine: that ends this process with its connection.
func (h *Host) while(ctx context.Context, host process.ID) (context.Context, context.CancelFunc) {
	if h.Elsewhere != nil {
		return context.WithCancel(ctx)
	}
	return While(ctx, host)
}

// While returns a context that ends with ctx, or once a process of the host has ended.
func While(ctx context.Context, host process.ID) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if !host.Here() {
		cancel()
		return ctx, cancel
	}
	orchestrator.GoSafe("host", nil, func() {
		ticker := time.NewTicker(lookAtHost)
		defer ticker.Stop()
		for host.Here() {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	})
	return ctx, cancel
}

// wait waits until a session is to be woken, and returns for how many messages; 0 if it is not to be woken any more, or ctx
// has ended. It looks when there is news.
func wait(ctx context.Context, w *hosts.Waiter, news <-chan struct{}) (n int, err error) {
	for ctx.Err() == nil {
		does, n, err := w.Look(ctx)
		again := lookAnyway
		switch {
		case err != nil && ctx.Err() != nil:
			return 0, nil
		case does == hosts.Soon || orchestrator.CodeOf(err) == orchestrator.Busy:
			again = lookAgain
		case err != nil || does == hosts.Over:
			return 0, err
		case does == hosts.Wake:
			return n, nil
		}
		select {
		case <-ctx.Done():
		case <-news:
		case <-time.After(again):
		}
	}
	return 0, nil
}
