package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/transport"
)

// Scripted is a transport whose deliveries the test controls.
type Scripted struct {
	Arrived []orchestrator.Message // delivered messages, in order
	Batch   int                    // the most messages in one delivery; 0 is one
	Leaving func()                 // called before a slot is released

	mu      sync.Mutex
	deliver func(ctx context.Context, a orchestrator.Attempt) []error // nil: all arrive
}

// Check accepts any address except an empty one.
func (s *Scripted) Check(address string) (string, error) {
	if address == "" {
		return "", errors.New("an address is missing")
	}
	return address, nil
}

// MaxBatch returns Batch, or 1 if Batch is 0.
func (s *Scripted) MaxBatch() int { return max(1, s.Batch) }

// Deliver calls the function from Set, if there is one, and records the messages that arrived.
func (s *Scripted) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	s.mu.Lock()
	deliver := s.deliver
	s.mu.Unlock()
	errs := make([]error, len(a.Messages))
	if deliver != nil {
		errs = deliver(ctx, a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range a.Messages {
		if errs[i] == nil {
			s.Arrived = append(s.Arrived, m)
		}
	}
	return errs
}

// Set sets the function that delivers from now on. If it is nil, all messages arrive.
func (s *Scripted) Set(deliver func(ctx context.Context, a orchestrator.Attempt) []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver = deliver
}

// IDs returns the IDs of the messages that arrived, in order.
func (s *Scripted) IDs() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.Arrived {
		ids = append(ids, m.ID)
	}
	return ids
}

// ErrGone is the error of a webhook that answers 410.
var ErrGone = fmt.Errorf("410 Gone: %w", orchestrator.ErrGone)

// ErrLater is the error of a program that exits with status 75.
var ErrLater = fmt.Errorf("exit status 75: %w", orchestrator.ErrTryLater)

// Refusing returns a delivery function that returns an error for every message.
func Refusing(err error) func(context.Context, orchestrator.Attempt) []error {
	return func(_ context.Context, a orchestrator.Attempt) []error {
		errs := make([]error, len(a.Messages))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
}

// Failing returns a delivery function that fails for every message, and may succeed the next time.
func Failing(reason string) func(context.Context, orchestrator.Attempt) []error {
	return Refusing(errors.New(reason))
}

// Marking is a delivery function that sets a mark, as a delivery to a folder does.
func Marking(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	for i := range errs {
		errs[i] = a.Mark(ctx, `here, and not at "wire:elsewhere":`)
	}
	return errs
}

// gated is a scripted transport that limits concurrent attempts as the transport exec does, with the same locks.
type gated struct{ *Scripted }

func (g gated) Slot(database, recipient string, limit int) (orchestrator.Slot, error) {
	slot, err := transport.Exec{}.Slot(database, recipient, limit)
	if err != nil || g.Scripted == nil || g.Leaving == nil {
		return slot, err
	}
	return lateSlot{slot, g.Leaving}, nil
}

// lateSlot is a slot that calls a function before it is released.
type lateSlot struct {
	orchestrator.Slot
	before func()
}

func (s lateSlot) Release() {
	s.before()
	s.Slot.Release()
}

// hung is a file transport that writes, and then does not return before its time is over.
type hung struct{ orchestrator.Transport }

func (h hung) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	h.Transport.Deliver(ctx, a)
	<-ctx.Done()
	return []error{fmt.Errorf("no answer: %w", ctx.Err())}
}

func (h hung) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	return h.Transport.(orchestrator.Recoverer).Recover(ctx, a)
}

// Person is the transport of the user under the control of a test, which provides the answers that are returned.
type Person struct {
	*Scripted
	Back func(ctx context.Context, l *ledger.Ledger) error // sends answers back; nil: there are none
}

// of returns the transport of one engine.
func (p *Person) of(l *ledger.Ledger) orchestrator.Transport { return personOf{p, l} }

type personOf struct {
	*Person
	ledger *ledger.Ledger
}

func (p personOf) Return(ctx context.Context) error {
	if p.Back == nil {
		return nil
	}
	return p.Back(ctx, p.ledger)
}
