package store

import "errors"

// Transaction is a write transaction, which several requests may share.
type Transaction struct {
	*Conn

	// Shared is what the requests of this transaction share: the writer's begin sets it.
	Shared any

	careful bool // failures are undone with savepoints
	spoiled bool // a failure has left something behind: all of it must be rolled back
	lost    bool // the database has rolled it back, or there was no number left for a row
}

// errSpoiled ends a request whose transaction is about to be run again.
var errSpoiled = errors.New("to be run again with savepoints")

// Apart runs fn so that its failure undoes what fn has done and nothing else. err ends the request. A transaction's first
// run has no savepoints and hopes for the best, see Batch.Run.
func (t *Transaction) Apart(fn func() error) (failure, err error) {
	if !t.careful {
		before := t.Writes
		if failure = fn(); failure != nil && t.Writes != before {
			t.spoiled = true
			return failure, errSpoiled
		}
		return failure, nil
	}
	if _, err := t.Exec("SAVEPOINT apart"); err != nil {
		return nil, err
	}
	if failure = fn(); failure != nil {
		if t.Broken() {
			return failure, failure
		}
		if _, err := t.Exec("ROLLBACK TO apart"); err != nil {
			return failure, err
		}
	}
	_, err = t.Exec("RELEASE apart")
	return failure, err
}
