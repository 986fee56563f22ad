package reading

import (
	"context"
	"slices"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// Line is where the waits of one client stand. A message goes to the newest wait that takes it, since a client may have abandoned
// an older one without a word. The older ones go on waiting, and get what comes next. The zero value is an empty line. It is safe for
// concurrent use.
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
	served chan struct{} // closed when another wait has taken something for this one, or failed to

	ms   []orchestrator.Message
	more bool
	err  error
}

// taking is lookAndTake or take.
type taking func(ctx context.Context, l *ledger.Ledger, o *Options) (ms []orchestrator.Message, more bool, err error)

// stand lets a wait stand in the line of its context, as the newest. leave belongs to it. A wait that does not wait stands in none:
// nothing comes to it later.
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

// take takes what there is for a wait. What newer waits of the same recipient want of it they get first.
func (p *place) take(ctx context.Context, l *ledger.Ledger, o *Options, how taking) ([]orchestrator.Message, bool, error) {
	if p == nil {
		return how(ctx, l, o)
	}
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if p.isServed() {
		return p.ms, p.more, p.err
	}
	for _, newer := range slices.Backward(p.line.places) {
		if newer == p {
			break
		}
		if newer.o.Recipient == o.Recipient && !newer.isServed() {
			newer.ms, newer.more, newer.err = how(newer.ctx, newer.ledger, newer.o)
			if len(newer.ms) > 0 || newer.err != nil {
				close(newer.served)
			}
		}
	}
	return how(ctx, l, o)
}

func (p *place) isServed() bool {
	select {
	case <-p.served:
		return true
	default:
		return false
	}
}

// wakes is ready when another wait has taken something for this one.
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

// leave ends the place of a wait, and returns what the wait ends with: what another has taken for it, or else what it was given.
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
