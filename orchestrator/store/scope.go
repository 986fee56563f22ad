package store

import "slices"

// Scope says what nobody else may change while a request runs: what the request has read of that stays true until it
// ends. A database with one writer at a time, such as SQLite, keeps everybody else out, whatever the scope is; one with
// many writers runs those requests at the same time whose scopes allow it. The zero value is Alone.
type Scope struct {
	shared     bool
	waits      bool
	recipients []string
}

// Alone keeps everybody else from writing. A request that looks whether something is there and then adds it needs this,
// and so does every change of the configuration: agents, groups, settings, tokens, schedules.
var Alone Scope

// Shared lets others write at the same time. It suits a request that only adds rows, where a unique index refuses what
// is added twice, or whose every statement is right by itself, such as a counter.
var Shared = Scope{shared: true}

// Of is Shared, but nobody else delivers, hands out or changes messages of these recipients that have not ended. A
// request that learns only while it runs of which recipients it is one is Shared and asks Transaction.Hold.
func Of(recipients ...string) Scope { return Scope{shared: true, recipients: recipients} }

// Waiting is Shared, but nobody else notes meanwhile whom a wait waits for, or looks for circles of waits.
var Waiting = Scope{shared: true, waits: true}

// IsAlone reports whether nobody else writes meanwhile.
func (s Scope) IsAlone() bool { return !s.shared }

// Waits reports whether s is Waiting, or that and more.
func (s Scope) Waits() bool { return s.waits }

// Recipients returns those of whom nobody else changes messages, sorted, each once.
func (s Scope) Recipients() []string { return s.recipients }

// scope returns the scope of a transaction for all requests of the batch.
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
