package store

import "slices"

// Ring is whom to wake after a commit. The zero value wakes nobody.
type Ring struct {
	All   bool
	names []string // recipients, each once
}

// maxNames bounds the recipients that a ring names; with more of them it wakes everybody.
const maxNames = 16

// Add adds recipients to be woken.
func (r *Ring) Add(recipients []string) {
	for _, recipient := range recipients {
		if r.All || slices.Contains(r.names, recipient) {
			continue
		}
		if len(r.names) >= maxNames {
			r.All = true
			return
		}
		r.names = append(r.names, recipient)
	}
}
