package postgres

// SetSteps gives a store more steps than this program has. oldest is the oldest version whose programs may continue.
func (s *Store) SetSteps(oldest int, steps ...string) {
	s.upgrades = upgrades{append(present.steps[:len(present.steps):len(present.steps)], steps...), oldest}
}

// Version returns the version of the tables.
func (s *Store) Version() int { return s.version() }

// LockOfWriters returns the SQL call that takes the lock for which all writers wait.
func (s *Store) LockOfWriters() string { return s.lock(writing) }

// NumberOfWriters returns the second number of that lock, as in pg_locks.
func (s *Store) NumberOfWriters() uint32 { return uint32(s.lockNumber("")) }
