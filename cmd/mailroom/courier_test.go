package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/router"
)

// courier is a program that delivers the due messages once, and stops at the place in its first argument, so that its
// test can kill it there. The second argument is the size of a claim.
//
//	settling   a transport has delivered, and the router has not recorded it
//	marked     a transport's mark is stored, and nothing is delivered
//	inbox      the inboxes are filled, in a transaction that is not committed
//	nowhere    it continues, but prints the places
//
// It prints each place that it reaches, in lines on its standard output: held or passed, the place, the scheme of the
// transport and the IDs of the messages.
func courier() {
	size, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	k := &knife{where: os.Args[1]}
	r, err := router.Open(context.Background(), enginetest.Placed(ledger.Options{
		Path: os.Getenv("MAILROOM_DB"), Transports: k.transports(), Log: slog.New(slog.DiscardHandler),
	}))
	if err != nil {
		panic(err)
	}
	if _, err := r.DeliverAll(context.Background(), delivery.Options{ClaimSize: size}); err != nil {
		panic(err)
	}
	if err := r.Close(); err != nil {
		panic(err)
	}
}

// knife is placed between the router and its transports.
type knife struct {
	where string
	mu    sync.Mutex
}

// at prints the place of the delivery of some messages, and stops if the process is to be killed there. A message is
// held once or twice, depending on its ID, and then passed, because a third crash would count as a failed attempt.
func (k *knife) at(where, scheme string, ms []orchestrator.Message) {
	held := k.where == where && (len(ms) == 0 || ms[0].Crashes <= int(ms[0].ID[len(ms[0].ID)-1])%2)
	line := "passed"
	if held {
		line = "held"
	}
	line += " " + where + " " + scheme
	for i := range ms {
		line += " " + ms[i].ID
	}
	k.mu.Lock()
	fmt.Println(line)
	k.mu.Unlock()
	if held {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test has ended
		os.Exit(3)
	}
}

// transports returns those of the program, each with the interfaces that the router checks for.
func (k *knife) transports() map[string]orchestrator.Transport {
	all := transports()
	for scheme, inner := range all {
		cut := severed{inner, scheme, k}
		switch t := inner.(type) {
		case orchestrator.SetTransport:
			all[scheme] = severedSet{cut, t}
		case orchestrator.Recoverer:
			all[scheme] = severedRecoverer{cut, t}
		case slotted:
			all[scheme] = severedSlotted{cut, t, t, t}
		default:
			all[scheme] = cut
		}
	}
	return all
}

type slotted interface {
	orchestrator.Sized
	orchestrator.Slotted
	orchestrator.Lingerer
}

// severed is a transport with a knife.
type severed struct {
	orchestrator.Transport
	scheme string
	k      *knife
}

func (s severed) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	mark := a.Mark
	a.Mark = func(ctx context.Context, note string) error {
		err := mark(ctx, note)
		if err == nil && note != "" {
			s.k.at("marked", s.scheme, a.Messages)
		}
		return err
	}
	errs := s.Transport.Deliver(ctx, a)
	for _, err := range errs {
		if err != nil {
			fmt.Println("failed", s.scheme, err)
			return errs
		}
	}
	s.k.at("settling", s.scheme, a.Messages)
	return errs
}

type severedRecoverer struct {
	severed
	orchestrator.Recoverer
}

type severedSlotted struct {
	severed
	orchestrator.Sized
	orchestrator.Slotted
	orchestrator.Lingerer
}

type severedSet struct {
	severed
	orchestrator.SetTransport
}

func (s severedSet) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	return s.severed.Deliver(ctx, a)
}

func (s severedSet) Check(address string) (string, error) { return s.severed.Check(address) }

func (s severedSet) DeliverSet(exec func(query string, args ...any) error, at string) error {
	err := s.SetTransport.DeliverSet(exec, at)
	if err == nil {
		s.k.at("inbox", s.scheme, nil)
	}
	return err
}
