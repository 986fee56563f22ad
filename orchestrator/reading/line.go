package reading

import (
	"context"
	"slices"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// Line orders the waits of one client. A message goes to the newest wait that accepts it, because the client may have
// abandoned older waits without notice. The older waits continue and get later messages. The zero value is an empty
// line. A Line is safe for concurrent use.
type Line struct {
	mu     sync.Mutex // held while a wait takes messages
	places []*place   // oldest first
}

type lineKey struct{}

// InLine returns a context whose waits belong to the given line.
func InLine(ctx context.Context, line *Line) context.Context {
	return context.WithValue(ctx, lineKey{}, line)
}

// place is the place of one wait in a line. A nil place belongs to a wait that is not in a line.
type place struct {
	line   *Line
	ctx    context.Context
	ledger *ledger.Ledger
	o      *Options
	served chan struct{} // closed when messages were taken for this wait, or taking them failed

	ms   []orchestrator.Message
	more bool
	err  error
}

// stand adds a wait to the line of its context, as the newest. Call leave when the wait ends. A wait without a
// timeout does not join the line, because no message can reach it later.
func stand(ctx context.Context, l *ledger.Ledger, o *Options) *place {
	line, ok := ctx.Value(lineKey{}).(*Line)
	if !ok || o.Timeout <= 0 {
		return nil
	}
	p := &place{line: line, ctx: ctx, ledger: l, o: o, served: make(chan struct{})}
	line.mu.Lock()
	defer line.mu.Unlock()
	line.places = append(line.places, p)
	return p
}

// take takes the available messages for a wait. It first checks whether there are any, unless rung is true. Newer
// waits of the same recipient take messages first, until each of them has some or none are left.
func (p *place) take(ctx context.Context, l *ledger.Ledger, o *Options, rung bool) ([]orchestrator.Message, bool,
	error) {
	if p == nil {
		return lookAndTake(ctx, l, o, rung)
	}
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if p.isServed() {
		return p.ms, p.more, p.err
	}
	for newer := p.newer(); len(newer) > 0; newer = p.newer() {
		// Check even if rung: the message that caused the ring may have been taken, and messages that arrive after
		// the newer waits were served are also for those waits.
		if there, err := look(ctx, l, o); err != nil || !there {
			return nil, false, err
		}
		if !slices.ContainsFunc(newer, func(n *place) bool { return n.serve(true) }) {
			rung = true // the check has been made
			break
		}
	}
	p.serve(rung)
	return p.ms, p.more, p.err
}

// serve takes the available messages for a wait, on behalf of that wait or of another one. It reports whether it took
// messages or failed. After that, nothing more is taken for the wait.
func (p *place) serve(rung bool) bool {
	p.ms, p.more, p.err = lookAndTake(p.ctx, p.ledger, p.o, rung)
	if len(p.ms) == 0 && p.err == nil {
		return false
	}
	close(p.served)
	return true
}

// newer returns the later waits of the same recipient that have nothing yet, the newest first.
func (p *place) newer() []*place {
	var found []*place
	for _, other := range slices.Backward(p.line.places) {
		if other == p {
			break
		}
		if other.o.Recipient == p.o.Recipient && !other.isServed() {
			found = append(found, other)
		}
	}
	return found
}

func (p *place) isServed() bool {
	select {
	case <-p.served:
		return true
	default:
		return false
	}
}

// wakes returns a channel that is closed when messages were taken for the wait.
func (p *place) wakes() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.served
}

// alone calls a function that uses the wait's Options while no other wait takes messages for this one.
func (p *place) alone(do func()) {
	if p != nil {
		p.line.mu.Lock()
		defer p.line.mu.Unlock()
	}
	do()
}

// leave removes the wait from the line and returns its final result: the messages that were taken for it, or else the
// given values.
func (p *place) leave(ms []orchestrator.Message, more bool, err error) ([]orchestrator.Message, bool, error) {
	if p == nil {
		return ms, more, err
	}
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.line.places = slices.DeleteFunc(p.line.places, func(other *place) bool { return other == p })
	if p.isServed() {
		return p.ms, p.more, p.err
	}
	return ms, more, err
}
