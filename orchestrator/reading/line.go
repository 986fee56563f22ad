package reading

import (
	"context"
	"slices"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// Line orders the concurrent waits of one client. Each message goes to the newest wait that accepts the message,
// because a client may abandon an older wait without notice. The older waits continue and get later messages. The
// zero value is an empty line. A Line is safe for concurrent use.
type Line struct {
	mu     sync.Mutex // held while a wait takes something
	places []*place   // oldest first
}

type lineKey struct{}

// InLine returns a context whose waits join line.
func InLine(ctx context.Context, line *Line) context.Context {
	return context.WithValue(ctx, lineKey{}, line)
}

// place is the position of one wait in a Line. A nil place belongs to a wait that has joined no line.
type place struct {
	line   *Line
	ctx    context.Context
	ledger *ledger.Ledger
	o      *Options
	// served is closed once the wait has messages or an error. Another wait may have taken the messages for this
	// wait.
	served chan struct{}

	ms   []orchestrator.Message
	more bool
	err  error
}

// stand adds a wait to the line of its context, as the newest. The caller must call leave when the wait ends. A wait
// without a timeout does not join the line, because it never waits for later messages.
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

// take takes the available messages for a wait. Unless rung is set, take first looks whether there are any. Newer
// waits of the same recipient come first, until each of them has messages or no message is left.
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
		// Look even if rung is set: another wait may have taken the message that rang, and the newer waits come first
		// for any message that has arrived since.
		if there, err := look(ctx, l, o); err != nil || !there {
			return nil, false, err
		}
		if !slices.ContainsFunc(newer, func(n *place) bool { return n.serve(true) }) {
			rung = true // the wait has just looked
			break
		}
	}
	p.serve(rung)
	return p.ms, p.more, p.err
}

// serve takes the available messages for p, and reports whether p now has messages or an error. If so, p takes
// nothing more. The caller may be another wait of the same line.
func (p *place) serve(rung bool) bool {
	p.ms, p.more, p.err = lookAndTake(p.ctx, p.ledger, p.o, rung)
	if len(p.ms) == 0 && p.err == nil {
		return false
	}
	close(p.served)
	return true
}

// newer returns the waits of the same recipient that began after p and have nothing yet, the newest first.
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

// wakes returns a channel that is closed once p has messages or an error. For a nil place the channel is nil.
func (p *place) wakes() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.served
}

// alone calls do while no other wait takes messages for p. do may change the Options of the wait.
func (p *place) alone(do func()) {
	if p != nil {
		p.line.mu.Lock()
		defer p.line.mu.Unlock()
	}
	do()
}

// leave removes p from its line and returns the result of the wait: the messages or the error that p already has, or
// else the arguments.
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
