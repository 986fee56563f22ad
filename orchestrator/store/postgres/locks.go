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

// lockKind is a kind of advisory lock and the first of the two numbers of such a lock. The second number is a hash
// of the schema and the locked name. A transaction takes its locks in the order of the kinds, and holds them until
// it ends.
type lockKind int32

const (
	settingUp lockKind = 0x4d41494b + iota // settings of users, in any schema: the server rejects two changes at once
	making                                 // creating or changing the tables
	writing                                // taken by every transaction that writes: shared, or exclusive to be alone
	waiting                                // recording what a wait depends on
	recipient                              // changing messages of a recipient, in the order of the hashes
)

// lock returns the SQL call that waits for a lock and takes it.
func (s *Store) lock(kind lockKind) string {
	return fmt.Sprintf("pg_advisory_xact_lock(%d, %d)", kind, s.lockNumber(""))
}

// lockNumber returns the second number of a lock. Two names may have the same number; they then block each other
// needlessly.
func (s *Store) lockNumber(name string) int32 { return lockNumber(s.schema, name) }

func lockNumber(schema, name string) int32 {
	h := fnv.New32a()
	h.Write([]byte(schema + "\x00" + name))
	return int32(h.Sum32())
}

// maxHeld is the maximum number of recipients' locks that a transaction takes; the server has room for some
// thousands in all. A transaction with more recipients is alone.
const maxHeld = 64

// locks returns the calls that take the locks of a scope, and whether the transaction is then alone. Each lock has
// its own statement, so that later statements see what was committed before.
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

// Alone reports whether nobody else can write until the transaction ends.
func (w *backend) Alone() bool { return w.alone }

// mostHeld is the maximum number of locks that Hold takes in a transaction. The locks of all transactions share a
// table with room for some thousands.
const mostHeld = 500

// Hold takes the lock of a recipient if the lock is free and the transaction has not taken too many. Then it reads
// the clock.
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
