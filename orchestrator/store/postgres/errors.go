package postgres

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/check"
)

// errNone is the cause of an error about a database that is not there.
var errNone = errors.New("it has none of mailroom's tables")

// noDatabase is the error for a place without a database.
func noDatabase(s *Store) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: errNone,
		Message: "there is no database at " + s.path,
		Hint:    "`mailroom --db " + orchestrator.ShellWord(s.path) + " init` makes one"}
}

// mayNotEnter is the error for a database that is another user's.
func mayNotEnter(s *Store) error {
	return &orchestrator.Error{Code: orchestrator.PermissionDenied,
		Message: "the user of " + s.path + " may not use its schema " + s.schema,
		Hint:    "Use the address with which the database was made; mailroom's tables belong to one user"}
}

// takesNoWrites is the error for a server that can only be read.
func takesNoWrites(s *Store, err error) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: err,
		Message: "the server of " + s.path + " takes no writes: it is a standby, or was made read-only",
		Hint:    check.NameAll}
}

// namePast is what to do about a pooler that is the only way to the server.
const namePast = "Add the server's own address to the database's: direct=postgres://USER@HOST/DATABASE, percent-encoded"

// The classes and codes of the server's errors that this package tells apart. Source: PostgreSQL's manual, appendix A.
const (
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
	readOnlyTransaction  = "25006"
	idledTooLong         = "25P03"
	tooManyConnections   = "53300"
	diskFull             = "53100"
	outOfMemory          = "53200"
	undefinedTable       = "42P01"
	undefinedSchema      = "3F000"
	noSuchDatabase       = "3D000"
	noRight              = "42501"
	undefinedFunction    = "42883"
	undefinedColumn      = "42703"
	undefinedObject      = "42704"
	notSupported         = "0A000"
	protocolViolation    = "08P01"
)

// codeOf returns the server's code of an error, "" for one that is not the server's.
func codeOf(err error) string {
	var own *pgconn.PgError
	if errors.As(err, &own) {
		return own.Code
	}
	return ""
}

// isKeptOut reports whether the server does not let this user in.
func isKeptOut(err error) bool { return strings.HasPrefix(codeOf(err), "28") }

// isLost reports whether an error says that the connection, or the server, has gone.
func isLost(err error) bool {
	var net net.Error
	var connecting *pgconn.ConnectError
	switch code := codeOf(err); {
	case err == nil, refusesTransactions(err), err == context.DeadlineExceeded, err == context.Canceled: // the last: what was asked for has given up by itself
		return false
	case code != "":
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || code == idledTooLong
	}
	return errors.As(err, &net) || errors.As(err, &connecting) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed") ||
		strings.Contains(err.Error(), "unexpected EOF")
}

// refusesRow reports whether an error says that the server does not take what a user wrote: a character that its
// encoding lacks, a value that is too long for an index, what a trigger has raised.
func refusesRow(err error) bool {
	var own *pgconn.PgError
	if !errors.As(err, &own) {
		return false
	}
	switch own.Code {
	case "22021", "22P05", "54000", "P0001": // character_not_in_repertoire, untranslatable_character, program_limit_exceeded, raise_exception
		return true
	}
	return own.Routine == "exec_stmt_raise" // RAISE of PL/pgSQL, whatever code that gives
}

// isDemoted reports whether an error says that the server takes no writes, though it answers: another may have taken
// its place.
func isDemoted(err error) bool { return codeOf(err) == readOnlyTransaction }

// Explain gives an error of the database its code and the advice what to do. Others pass through.
func (s *Store) Explain(err error) error {
	var own *orchestrator.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	fail := func(code orchestrator.Code, message, hint string) error {
		return &orchestrator.Error{Code: code, Message: message, Hint: hint, Err: err}
	}
	switch code := codeOf(err); {
	case code == lockNotAvailable, code == deadlockDetected, code == serializationFailure:
		return fail(orchestrator.Busy, "the database "+s.path+" is locked by another program; nothing was written",
			"Try again")
	case code == diskFull:
		return fail(orchestrator.Unavailable, "the disk of the server of "+s.path+" is full; nothing was written",
			"Free some space there")
	case code == tooManyConnections:
		return fail(orchestrator.Unavailable, "the server of "+s.path+" has no connection left",
			"Raise its max_connections, or end what holds them")
	case code == outOfMemory:
		return fail(orchestrator.Unavailable,
			"the server of "+s.path+" has no memory left, or no room for locks; nothing was written",
			"Look at its log. For locks, raise its max_locks_per_transaction")
	case refusesTransactions(err):
		return fail(orchestrator.Unavailable, "the pooler before the server of "+s.path+
			" has pool_mode = statement, with which there are no transactions",
			"Set pool_mode = transaction for this database in the pooler's configuration")
	case code == noSuchDatabase:
		return fail(orchestrator.Unavailable, "the server has no database "+cmp.Or(s.config.Database, s.config.User),
			"See whether the address names the right one. To make it there: `createdb -O "+s.config.User+" "+
				cmp.Or(s.config.Database, s.config.User)+"`")
	case code == noRight:
		return fail(orchestrator.Unavailable, "the user of "+s.path+" may not do that",
			"`mailroom init` needs a user that may CREATE in the database; later on, use the one that made the tables")
	case isKeptOut(err):
		return fail(orchestrator.Unavailable, "the server of "+s.path+" does not let this user in",
			"The password belongs in ~/.pgpass, or in PGPASSWORD, which the commands of agents do not get; pg_hba.conf of the server says who may enter")
	case code == undefinedObject && errors.As(err, new(*pgconn.ConnectError)):
		return fail(orchestrator.InvalidParams, "the server of "+s.path+" does not know a parameter of the address",
			"Correct it: those of libpq, and settings of the server, may stand there")
	case code == "" && isUntrusted(err):
		return fail(orchestrator.Unavailable, "the certificate of the server of "+s.path+" cannot be trusted",
			"Name the server as its certificate does, and the authority that signed that: sslrootcert=FILE; sslmode=require in the address trusts any")
	case errors.Is(err, errUndone):
		return fail(orchestrator.Unavailable, "the server of "+s.path+" has ended the transaction; nothing was written",
			"Try again")
	case isDemoted(err):
		return takesNoWrites(s, err)
	case isLost(err):
		return fail(orchestrator.Unavailable, "the server of "+s.path+" does not answer; nothing was written",
			"See whether it runs, and whether its address is right")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fail(orchestrator.Busy, "gave up waiting for the database; nothing was written", "Try again")
	case refusesRow(err):
		return store.Refused(err)
	case code == queryCanceled:
		return fail(orchestrator.Busy,
			"the server of "+s.path+
				" has ended a statement, for its statement_timeout or an administrator; nothing was written",
			"Try again")
	}
	return err
}
