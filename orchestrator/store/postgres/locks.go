package postgres

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/wire"
)

// The kinds of advisory locks, each of which is the first of the two numbers of a lock. The second is a hash of the
// schema and of what is locked. They are taken in this order, and end with the transaction.
type lockKind int32

const (
	settingUp lockKind = 0x4d41494b + iota // changing the settings of users, of any schema: the server refuses two at once
	making                                 // making the tables, or changing them
	writing                                // by every transaction that writes: shared, or to be alone
	waiting                                // noting whom a wait waits for
	recipient                              // changing messages of a recipient, in the order of their hashes
)

// lock is the call that takes a lock, waiting for it.
func (s *Store) lock(kind lockKind) string {
	return fmt.Sprintf("pg_advisory_xact_lock(%d, %d)", kind, s.lockNumber(""))
}

// lockNumber is the second number of a lock. Two names may have the same, and then wait for each other without need.
func (s *Store) lockNumber(name string) int32 { return lockNumber(s.schema, name) }

func lockNumber(schema, name string) int32 {
	h := fnv.New32a()
	h.Write([]byte(schema + "\x00" + name))
	return int32(h.Sum32())
}

// maxHeld is how many recipients' locks a transaction takes: the server has room for some thousands in all. With more
// it is alone.
const maxHeld = 64

// locks returns the statements that take the locks of a scope, each a statement of its own, so that those behind see
// what was committed before; and whether that leaves the transaction alone.
func (s *Store) locks(scope store.Scope) (calls []wire.Call, alone bool) {
	take := func(function string, kind lockKind, number int32) {
		calls = append(calls,
			wire.Call{Text: "SELECT " + function + "($1::int, $2::int)",
				Values: [][]byte{strconv.AppendInt(nil, int64(kind), 10), strconv.AppendInt(nil, int64(number), 10)}})
	}
	const exclusive, shared = "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"
	if scope.IsAlone() || len(scope.Recipients()) > maxHeld {
		take(exclusive, writing, s.lockNumber(""))
		return calls, true
	}
	take(shared, writing, s.lockNumber(""))
	if scope.Waits() {
		take(exclusive, waiting, s.lockNumber(""))
	}
	numbers := map[int32]bool{}
	for _, name := range scope.Recipients() {
		numbers[s.lockNumber(name)] = true
	}
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		take(exclusive, recipient, n)
	}
	return calls, false
}

// Alone reports whether nobody else writes.
func (w *backend) Alone() bool { return w.alone }

// mostHeld is how many locks Hold takes in a transaction: those of all transactions share a table of some thousands.
const mostHeld = 500

// Hold takes the lock of a recipient, if nobody has it and the transaction has not taken too many, and reads the clock
// behind it.
func (w *backend) Hold(name string) (bool, error) {
	if w.alone {
		return true, nil
	}
	if w.held++; w.held > mostHeld {
		return false, nil
	}
	got := false
	err := w.Query(`SELECT pg_try_advisory_xact_lock(?1, ?2), `+readClock, func(row store.Row) error {
		got = row.Int(0) != 0
		w.s.clock.set([]byte(row.Text(1)))
		return nil
	}, int(recipient), int(w.s.lockNumber(name)))
	return got, err
}
