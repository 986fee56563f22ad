package store

// Scope says what nobody else changes while a request runs, and so what of that which it has read stays true until it ends. A
// database with one writer at a time, such as SQLite, gives every request the whole of it; one with many lets those run at
// the same time whose scopes allow it. The zero value is Alone.
type Scope struct {
	shared     bool
	each       bool
	recipients []string
	turns      []Turn
}

// Alone keeps everybody else from writing. A request that looks whether something is there and then adds it needs this, and so
// does every change of the configuration: agents, groups, settings, tokens, schedules.
var Alone Scope

// Shared lets others write at the same time. It suits a request that only adds rows, where a unique index refuses what is added
// twice, or whose every statement is right by itself, such as a counter.
var Shared = Scope{shared: true}

// Of is Shared, but nobody else delivers, hands out or changes messages of these recipients that have not ended.
func Of(recipients ...string) Scope { return Scope{shared: true, recipients: recipients} }

// OfEach is Of for the recipients that the request comes to, one after the other. It passes over one that another request has.
var OfEach = Scope{shared: true, each: true}

// In returns the scope for a request that does these kinds of work, too, each of which one request at a time does.
func (s Scope) In(turns ...Turn) Scope {
	s.turns = turns
	return s
}

// Turn is a kind of work that takes turns, in all processes and on all hosts.
type Turn string

// The kinds of work that take turns.
const (
	Waiting  Turn = "waiting"  // noting whom a wait waits for, and looking for circles of waits
	Adopting Turn = "adopting" // bringing rows that others wrote into our form
	Tidying  Turn = "tidying"  // ending what has lapsed, and everything else that is due
	Clearing Turn = "clearing" // deleting and archiving messages that have ended
)

// IsAlone reports whether nobody else writes meanwhile.
func (s Scope) IsAlone() bool { return !s.shared }
