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

// errNone is the cause of an error about a database that does not exist.
var errNone = errors.New("the schema has no Mailroom tables")

// noDatabase returns the error for an address without a database.
func noDatabase(s *Store) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: errNone,
		Message: "there is no database at " + s.path,
		Hint:    "To create it, run `mailroom --db " + orchestrator.ShellWord(s.path) + " init`"}
}

// mayNotEnter returns the error for a database that belongs to another user.
func mayNotEnter(s *Store) error {
	return &orchestrator.Error{Code: orchestrator.PermissionDenied,
		Message: "the user of " + s.path + " has no right to use the schema " + s.schema,
		Hint:    "Use the address that the database was created with. The tables of Mailroom belong to one user"}
}

// takesNoWrites returns the error for a server that can only be read.
func takesNoWrites(s *Store, err error) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: err,
		Message: "the server of " + s.path + " does not accept writes because it is a standby or read-only",
		Hint:    check.NameAll}
}

// namePast is the advice for a pooler that is the only way to the server.
const namePast = "Add the server's own address, percent-encoded, to the address of the database: direct=postgres://USER@HOST/DATABASE"

// The error codes of the server that this package distinguishes. Source: PostgreSQL's manual, appendix A.
const (
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	foreignKeyViolation  = "23503"
	uniqueViolation      = "23505"
	checkViolation       = "23514"
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

// codeOf returns the server's code of an error, or "" if the error is not from the server.
func codeOf(err error) string {
	var own *pgconn.PgError
	if errors.As(err, &own) {
		return own.Code
	}
	return ""
}

// isKeptOut reports whether the server refuses to let this user connect.
func isKeptOut(err error) bool { return strings.HasPrefix(codeOf(err), "28") }

// isLost reports whether an error means that the connection or the server is gone.
func isLost(err error) bool {
	var net net.Error
	var connecting *pgconn.ConnectError
	switch code := codeOf(err); {
	// A bare context error means that the caller has given up.
	case err == nil, refusesTransactions(err), err == context.DeadlineExceeded, err == context.Canceled:
		return false
	case code != "":
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || code == idledTooLong
	}
	return errors.As(err, &net) || errors.As(err, &connecting) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed") ||
		strings.Contains(err.Error(), "unexpected EOF")
}

// refusesRow reports whether the server rejected data of a user: a character that its encoding does not have, a
// value that is too long for an index, a row that violates a constraint, or an error raised by a trigger.
func refusesRow(err error) bool {
	var own *pgconn.PgError
	if !errors.As(err, &own) {
		return false
	}
	switch own.Code {
	// character_not_in_repertoire, untranslatable_character, program_limit_exceeded, raise_exception
	case "22021", "22P05", "54000", "P0001", foreignKeyViolation, uniqueViolation, checkViolation:
		return true
	}
	return own.Routine == "exec_stmt_raise" // RAISE of PL/pgSQL, whatever its code is
}

// isDemoted reports whether an error means that the server answers but takes no writes. Another server may have
// taken its place.
func isDemoted(err error) bool { return codeOf(err) == readOnlyTransaction }

// Explain adds to an error of the database its code and a hint what to do. Other errors are returned unchanged.
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
			"Free some space on that disk")
	case code == tooManyConnections:
		return fail(orchestrator.Unavailable, "the server of "+s.path+" has no free connection",
			"Raise its max_connections, or close other connections")
	case code == outOfMemory:
		return fail(orchestrator.Unavailable,
			"the server of "+s.path+" has run out of memory or of space for locks; nothing was written",
			"See the log of the server. If the server has run out of space for locks, raise its max_locks_per_transaction")
	case refusesTransactions(err):
		return fail(orchestrator.Unavailable, "the pooler at "+s.path+
			" has pool_mode = statement, which does not allow transactions",
			"Set pool_mode = transaction for this database in the pooler's configuration")
	case code == noSuchDatabase:
		return fail(orchestrator.Unavailable, "the server has no database "+cmp.Or(s.config.Database, s.config.User),
			"Check the database name in the address. To create the database on the server, run `createdb -O "+s.config.User+" "+
				cmp.Or(s.config.Database, s.config.User)+"`")
	case code == noRight:
		return fail(orchestrator.Unavailable, "the user of "+s.path+" does not have the right to do this",
			"Run `mailroom init` as a user with the CREATE privilege in the database. Afterwards, connect as the user that created the tables")
	case isKeptOut(err):
		return fail(orchestrator.Unavailable, "the server of "+s.path+" does not allow this user to connect",
			"Put the password into ~/.pgpass or PGPASSWORD. Mailroom does not pass PGPASSWORD to the commands of agents. In the server's pg_hba.conf, check that the user may connect")
	case code == undefinedObject && errors.As(err, new(*pgconn.ConnectError)):
		return fail(orchestrator.InvalidParams, "the server of "+s.path+" does not support a parameter of the address",
			"Correct the parameter. The address can contain libpq parameters and server settings")
	case code == "" && isUntrusted(err):
		return fail(orchestrator.Unavailable, "the certificate of the server of "+s.path+" is not trusted",
			"In the address, use the host name that is in the certificate, and set sslrootcert=FILE to the certificate of the authority that signed it. To trust any certificate, set sslmode=require instead")
	case errors.Is(err, errUndone):
		return fail(orchestrator.Unavailable, "the server of "+s.path+" aborted the transaction; nothing was written",
			"Try again")
	case isDemoted(err):
		return takesNoWrites(s, err)
	case isLost(err):
		return fail(orchestrator.Unavailable, "the server of "+s.path+" does not answer; nothing was written",
			"Check that the server is running and that its address is correct")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fail(orchestrator.Busy, "stopped waiting for the database; nothing was written", "Try again")
	case refusesRow(err):
		return store.Refused(err)
	case code == queryCanceled:
		return fail(orchestrator.Busy,
			"the server of "+s.path+
				" stopped a statement because of statement_timeout or because an administrator canceled it; nothing was written",
			"Try again")
	}
	return err
}
