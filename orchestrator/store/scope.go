package store

// Scope says what nobody else changes while a request runs, and so what of that which it has read stays true until it ends. A
// database with one writer at a time, such as SQLite, gives every request the whole of it; one with many lets those run at
// the same time whose scopes allow it. The zero value is Alone.
type Scope struct {
	shared     bool
	recipients []string
	turn       Turn
}

// Alone keeps everybody else from writing. A request that looks whether something is there and then adds it needs this, and so
// does every change of the configuration: agents, groups, settings, tokens, schedules.
var Alone Scope

// Shared lets others write at the same time. It suits a request that adds rows under new ids, or whose every statement is right
// by itself: a send, a counter, a heartbeat, a claim of rows that it locks first.
var Shared = Scope{shared: true}

// Of is Shared, but nobody else delivers, hands out or changes messages of these recipients meanwhile.
func Of(recipients ...string) Scope { return Scope{shared: true, recipients: recipients} }

// In is Shared, but one request at a time does this kind of work.
func In(turn Turn) Scope { return Scope{shared: true, turn: turn} }

// Turn is a kind of work that takes turns, in all processes and on all hosts.
type Turn string

// The kinds of work that take turns.
const (
	Waiting  Turn = "waiting"  // noting whom a wait waits for, and looking for circles of waits
	Tidying  Turn = "tidying"  // ending what has lapsed, and everything else that is due
	Clearing Turn = "clearing" // deleting and archiving by the rules of retention
)

// IsAlone reports whether nobody else writes meanwhile.
func (s Scope) IsAlone() bool { return !s.shared }
