package postgres

// SetSteps gives a store further steps than those of this program; oldest is the oldest version whose programs may go
// on.
func (s *Store) SetSteps(oldest int, steps ...string) {
	s.upgrades = upgrades{append(present.steps[:len(present.steps):len(present.steps)], steps...), oldest}
}

// Version is that of the tables.
func (s *Store) Version() int { return s.version() }

// LockOfWriters is the call that takes the lock by which all who write wait for each other.
func (s *Store) LockOfWriters() string { return s.lock(writing) }

// NumberOfWriters is the second number of that lock, as pg_locks has it.
func (s *Store) NumberOfWriters() uint32 { return uint32(s.lockNumber("")) }
