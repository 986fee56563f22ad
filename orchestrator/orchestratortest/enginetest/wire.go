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

// Scripted is a transport whose deliveries go as the test says.
type Scripted struct {
	Arrived []orchestrator.Message // what was delivered, in order
	Batch   int                    // how many messages it takes at once; 0 is one
	Leaving func()                 // what whoever has a slot does before giving it back

	mu      sync.Mutex
	deliver func(ctx context.Context, a orchestrator.Attempt) []error // nil: all arrive
}

// Check accepts any address but an empty one.
func (s *Scripted) Check(address string) (string, error) {
	if address == "" {
		return "", errors.New("an address is missing")
	}
	return address, nil
}

// MaxBatch returns Batch.
func (s *Scripted) MaxBatch() int { return max(1, s.Batch) }

// Deliver does what Set said.
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

// Set says how deliveries go from now on; with nil all arrive.
func (s *Scripted) Set(deliver func(ctx context.Context, a orchestrator.Attempt) []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver = deliver
}

// IDs returns the ids of what arrived, in order.
func (s *Scripted) IDs() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.Arrived {
		ids = append(ids, m.ID)
	}
	return ids
}

// ErrGone is what a webhook answers with 410.
var ErrGone = fmt.Errorf("410 Gone: %w", orchestrator.ErrGone)

// ErrLater is what a program answers that ends with 75.
var ErrLater = fmt.Errorf("exit status 75: %w", orchestrator.ErrTryLater)

// Refusing is a delivery that answers with this error for every message.
func Refusing(err error) func(context.Context, orchestrator.Attempt) []error {
	return func(_ context.Context, a orchestrator.Attempt) []error {
		errs := make([]error, len(a.Messages))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
}

// Failing is a delivery that fails for every message, and may succeed the next time.
func Failing(reason string) func(context.Context, orchestrator.Attempt) []error {
	return Refusing(errors.New(reason))
}

// Marking is a delivery that leaves a mark, as one into a folder does.
func Marking(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	for i := range errs {
		errs[i] = a.Mark(ctx, `here, and not at "wire:elsewhere":`)
	}
	return errs
}

// gated is a scripted transport that bounds its attempts as commands are bounded, with the same locks.
type gated struct{ *Scripted }

func (g gated) Slot(database, recipient string, limit int) (orchestrator.Slot, error) {
	slot, err := transport.Exec{}.Slot(database, recipient, limit)
	if err != nil || g.Scripted == nil || g.Leaving == nil {
		return slot, err
	}
	return lateSlot{slot, g.Leaving}, nil
}

// lateSlot is a slot whose holder does something before it gives it back.
type lateSlot struct {
	orchestrator.Slot
	before func()
}

func (s lateSlot) Release() {
	s.before()
	s.Slot.Release()
}

// hung is a file transport that writes, and then does not come back before its time is up.
type hung struct{ orchestrator.Transport }

func (h hung) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	h.Transport.Deliver(ctx, a)
	<-ctx.Done()
	return []error{fmt.Errorf("no answer: %w", ctx.Err())}
}

func (h hung) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	return h.Transport.(orchestrator.Recoverer).Recover(ctx, a)
}

// Person is the transport of the user as a test has it: what is sent back is up to the test.
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
