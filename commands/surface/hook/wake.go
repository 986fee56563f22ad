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
	lookAtHost = time.Second            // interval at which a waiter checks whether its host still runs
	lookAgain  = 250 * time.Millisecond // interval at which it checks a working session while a message waits
	lookAnyway = time.Minute            // interval of checks without news: another waiter may have taken over
)

// Wake waits until messages for the agent require waking the session in the host's JSON, and returns the text that
// wakes the session. The text has no content of any message: the hook of the new turn shows the messages. The text is
// "" if there is nothing to wait for, or no longer: the host is about to exit by itself or has exited, another
// process already waits for the session, the session has ended, or messages have caused the maximum number of turns.
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

// Stays reports whether the host's process exists and does not exit after the turn.
func (h *Host) Stays() bool {
	host := h.process()
	return host.PID != 0 && h.EndsByItself != nil && !h.EndsByItself(process.Words(host.PID))
}

// while returns a context that ends with ctx, or once the host's process has ended. For a host on another machine, it
// ends only with ctx, because the closed connection ends this process.
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

// wait waits until a session is to be woken, and returns the number of messages, or 0 if the session is not to be
// woken any more or ctx has ended. It checks at each value from news.
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
