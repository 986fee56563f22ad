package reading

import (
	"context"
	"slices"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// Line is where the waits of one client stand. A message goes to the newest wait that takes it, since a client may have
// abandoned an older one without a word. The older ones go on waiting, and get what comes next. The zero value is an
// empty line. It is safe for concurrent use.
type Line struct {
	mu     sync.Mutex // held while a wait takes something
	places []*place   // oldest first
}

type lineKey struct{}

// InLine returns a context whose waits stand in a line.
func InLine(ctx context.Context, line *Line) context.Context {
	return context.WithValue(ctx, lineKey{}, line)
}

// place is the place of one wait in a line. nil is that of a wait that stands in none.
type place struct {
	line   *Line
	ctx    context.Context
	ledger *ledger.Ledger
	o      *Options
	served chan struct{} // closed when something was taken for this wait, by itself or another, or that has failed

	ms   []orchestrator.Message
	more bool
	err  error
}

// stand lets a wait stand in the line of its context, as the newest. leave belongs to it. A wait that does not wait
// stands in none: nothing comes to it later.
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

// take takes what there is for a wait. It first looks whether there is anything, unless the caller knows (rung). Newer
// waits of the same recipient take before it, until each of them has something or there is nothing more.
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
		// Look even when rung for: what rang may be taken, and what comes after the newer waits have been asked is for
		// them, too.
		if there, err := look(ctx, l, o); err != nil || !there {
			return nil, false, err
		}
		if !slices.ContainsFunc(newer, func(n *place) bool { return n.serve(true) }) {
			rung = true // it has looked
			break
		}
	}
	p.serve(rung)
	return p.ms, p.more, p.err
}

// serve takes what there is for a wait, be it for another or for itself, and returns whether it has something, or has
// failed. From then on nothing more is taken for it.
func (p *place) serve(rung bool) bool {
	p.ms, p.more, p.err = lookAndTake(p.ctx, p.ledger, p.o, rung)
	if len(p.ms) == 0 && p.err == nil {
		return false
	}
	close(p.served)
	return true
}

// newer returns the waits of the same recipient that began later and have nothing yet, the newest first.
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

// wakes is ready when something was taken for the wait.
func (p *place) wakes() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.served
}

// alone calls a function while no other wait takes anything for this one: it uses the wait's Options.
func (p *place) alone(do func()) {
	if p != nil {
		p.line.mu.Lock()
		defer p.line.mu.Unlock()
	}
	do()
}

// leave ends the place of a wait, and returns what the wait ends with: what was taken for it, or else what it was
// given.
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
