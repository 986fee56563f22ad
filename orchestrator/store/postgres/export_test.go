package postgres

// SetSteps gives a store other steps than those of this program; oldest is the oldest version whose programs may go on.
func (s *Store) SetSteps(oldest int, steps ...string) { s.upgrades = upgrades{steps, oldest} }
