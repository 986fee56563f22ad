package postgres

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"mailroom/orchestrator/store"
)

// The kinds of advisory locks, each of which is the first of the two numbers of a lock. The second is a hash of the schema and of what
// is locked. They are taken in this order, and end with the transaction. Source: postgres.md, section 4.
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
func (s *Store) lockNumber(name string) int32 {
	h := fnv.New32a()
	h.Write([]byte(s.schema + "\x00" + name))
	return int32(h.Sum32())
}

// maxHeld is how many recipients' locks a transaction takes: the server has room for some thousands in all. With more it is alone.
const maxHeld = 64

// locks returns the statements that take the locks of a scope, each a statement of its own, so that those behind see what was
// committed before; and whether that leaves the transaction alone.
func (s *Store) locks(scope store.Scope) (statements string, alone bool) {
	if scope.IsAlone() || len(scope.Recipients()) > maxHeld {
		return "SELECT " + s.lock(writing), true
	}
	all := "SELECT " + strings.Replace(s.lock(writing), "_lock(", "_lock_shared(", 1)
	if scope.Waits() {
		all += "; SELECT " + s.lock(waiting)
	}
	numbers := map[int32]bool{}
	for _, name := range scope.Recipients() {
		numbers[s.lockNumber(name)] = true
	}
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		all += fmt.Sprintf("; SELECT pg_advisory_xact_lock(%d, %d)", recipient, n)
	}
	return all, false
}

// Alone reports whether nobody else writes.
func (w *backend) Alone() bool { return w.alone }

// Hold takes the lock of a recipient, if nobody has it.
func (w *backend) Hold(name string) (bool, error) {
	if w.alone {
		return true, nil
	}
	got, err := w.Number(`SELECT pg_try_advisory_xact_lock(?1, ?2)`, int(recipient), int(w.s.lockNumber(name)))
	return got != 0, err
}
