package store

import "slices"

// Scope describes the data that nobody else may change while a request runs, so that the data that the request reads
// stays valid until the request ends. A database with one writer at a time, such as SQLite, keeps all others from
// writing, whatever the scope is. A database with many writers runs requests at the same time if their scopes allow
// it. The zero value is Alone.
type Scope struct {
	shared     bool
	waits      bool
	recipients []string
}

// Alone keeps everybody else from writing. It is needed by a request that checks whether something exists and then
// adds it, and by every change of the configuration: agents, groups, settings, tokens, schedules.
var Alone Scope

// Shared lets others write at the same time. It suits a request that only adds rows, if a unique index rejects
// duplicates, and a request whose statements are each correct on their own, such as one that increments a counter.
var Shared = Scope{shared: true}

// Of returns a scope like Shared in which nobody else delivers, hands out or changes messages of these recipients
// that have not ended. A request that learns the recipients only while it runs uses Shared and calls
// Transaction.Hold.
func Of(recipients ...string) Scope { return Scope{shared: true, recipients: recipients} }

// Waiting is a scope like Shared in which nobody else records what a wait depends on, or searches for circular
// waits.
var Waiting = Scope{shared: true, waits: true}

// IsAlone reports whether nobody else may write.
func (s Scope) IsAlone() bool { return !s.shared }

// Waits reports whether s includes Waiting.
func (s Scope) Waits() bool { return s.waits }

// Recipients returns the recipients whose messages nobody else may change, sorted and without duplicates.
func (s Scope) Recipients() []string { return s.recipients }

// scope returns the scope of a transaction that runs all requests of the batch.
func (b *Batch) scope() Scope {
	all := Shared
	for _, q := range b.Requests {
		switch s := q.Scope; {
		case q.closes:
		case s.IsAlone():
			return Alone
		default:
			all.waits = all.waits || s.waits
			all.recipients = append(all.recipients, s.recipients...)
		}
	}
	slices.Sort(all.recipients)
	all.recipients = slices.Compact(all.recipients)
	return all
}
