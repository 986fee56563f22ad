package orchestrator

import "slices"

// Ring is whom to wake after a commit. The zero value wakes nobody.
type Ring struct {
	all   bool
	names []string // recipients, each once
}

// maxNames bounds the recipients that a ring names; with more of them it wakes everybody.
const maxNames = 16

func (r *Ring) add(recipients []string) {
	for _, recipient := range recipients {
		if r.all || slices.Contains(r.names, recipient) {
			continue
		}
		if len(r.names) >= maxNames {
			r.all = true
			return
		}
		r.names = append(r.names, recipient)
	}
}
