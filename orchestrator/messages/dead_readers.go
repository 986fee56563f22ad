package messages

import (
	"context"
	"slices"
	"time"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
)

// DeadReaderPoll is the interval at which a waiter checks whether the processes that hold reading leases still run.
const DeadReaderPoll = time.Second

// EndDeadReaders ends the reading leases whose process has ended, so that their messages are unread again. It covers
// the leases of one recipient, or all leases if recipient is "". ended reports whether there were any.
func EndDeadReaders(ctx context.Context, l *ledger.Ledger, recipient string) (ended bool, err error) {
	here := process.Self().Host()
	const ofProcess = `pid > 0 AND host = ?1 AND (?2 = '' OR recipient = ?2)`
	var dead []Lease
	err = l.Look(ctx, func(c *store.Conn) error {
		list, err := leases(c, ofProcess, here, recipient)
		dead = deadOf(list)
		return err
	})
	if err != nil || len(dead) == 0 {
		return false, err
	}
	recipients := make([]string, len(dead))
	for i := range dead {
		recipients[i] = dead[i].recipient
	}
	return true, l.Write(ctx, store.Of(recipients...), func(t *ledger.Tx) error {
		list, err := leases(t.Conn, ofProcess, here, recipient)
		if err != nil {
			return err
		}
		for _, s := range deadOf(list) {
			if !slices.Contains(recipients, s.recipient) {
				continue // its lock is not held; the next check handles it
			}
			why := " has ended; unread again"
			if s.Unwritten() {
				why = " ended before its answer was written; unread again"
			}
			if err := GiveBack(t, &s, s.String()+why); err != nil {
				return err
			}
		}
		return nil
	})
}

// deadOf returns the leases whose process, on this machine, has ended. Each process is checked once.
func deadOf(list []Lease) (dead []Lease) {
	alive := map[process.ID]bool{}
	space := process.Self().Space
	for _, s := range list {
		reader := process.ID{PID: s.pid, Born: s.born, Space: space}
		lives, known := alive[reader]
		if !known {
			lives = s.pid <= 0 || reader.Alive()
			alive[reader] = lives
		}
		if !lives {
			dead = append(dead, s)
		}
	}
	return dead
}
