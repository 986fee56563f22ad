package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/check"
)

// checkPatience is the time limit for all queries of a check.
const checkPatience = 30 * time.Second

// CheckPlace checks the server. Each check is independent: a check that fails, for example for lack of a right, does
// not end the others.
func (s *Store) CheckPlace(ctx context.Context, report store.Report) {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	own := []check.Check{{Name: "pooler", Ask: s.checkPooler}, {Name: "audit user", Ask: s.checkAuditor}}
	for _, one := range slices.Concat(check.Server(settings), own, check.Load(maxReaders+3)) {
		err := s.Look(ctx, func(c *store.Conn) error { return one.Ask(c, report) })
		var known *orchestrator.Error
		switch {
		case err == nil:
		case errors.Is(err, errNone):
			report("server", store.Note, "there is no database at "+s.path+" yet", "To create it, run `mailroom init`")
			return
		case errors.As(err, &known) && !s.found.Load():
			report("server", store.Problem, known.Message, known.Hint)
			return
		default:
			report(one.Name, store.Note, "this check failed: "+err.Error(), "")
		}
	}
}

// checkAuditor checks that queries can run, and that they can only read.
func (s *Store) checkAuditor(c *store.Conn, report store.Report) error {
	return c.Query(`
		SELECT r.rolcanlogin AND has_schema_privilege(r.oid, current_schema(), 'USAGE')
			AND has_table_privilege(r.oid, 'agent_message', 'SELECT'),
		       r.rolsuper OR r.rolcreaterole OR pg_has_role(r.oid, current_user, 'MEMBER')
		       	OR has_table_privilege(r.oid, 'agent_message', 'INSERT, UPDATE, DELETE'),
		       (SELECT string_agg(t, ', ' ORDER BY t) FROM unnest(?1::text[]) AS t
		       	WHERE has_table_privilege(r.oid, t, 'SELECT')), r.rolname, r.rolconnlimit
		FROM (SELECT 1) AS one LEFT JOIN pg_roles r ON r.rolname = '`+auditRole+`'`, func(row store.Row) error {
		secrets := row.Text(2)
		switch {
		case row.Text(3) == "":
			report("audit user", store.Note, "the server has no user "+auditRole+", so `mailroom sql` cannot run queries",
				"On the server, run "+makeAuditor+", and then run `mailroom init`")
		case row.Int(1) != 0:
			report("audit user", store.Problem,
				"the user "+auditRole+", which runs the queries of `mailroom sql`, can do more than read",
				"Revoke the other rights and the role memberships of this user")
		case secrets != "":
			report("audit user", store.Problem, "the user "+auditRole+" can read credentials: "+secrets,
				"Run `mailroom init`, which revokes this right. If all users have the right, run REVOKE SELECT ON "+secrets+" FROM PUBLIC")
		case row.Int(0) == 0:
			report("audit user", store.Note, "the user "+auditRole+" cannot read the tables, so `mailroom sql` cannot run queries",
				"Make sure that the user has the LOGIN attribute, and then run `mailroom init`")
		default:
			c, err := enterAsAuditor(s, context.Background(), 0)
			if err != nil {
				report("audit user", store.Note, "the user "+auditRole+" cannot connect, so `mailroom sql` cannot run queries: "+
					err.Error(), "Put the password of this user into ~/.pgpass, and check in the server's pg_hba.conf that the user may connect")
				return nil
			}
			c.Close()
			report("audit user", store.Fine, "queries run as the user "+auditRole+", which cannot read credentials", "")
			if row.Int(4) < 0 {
				report("audit connections", store.Note,
					"the user "+auditRole+" has no connection limit, so its queries can use up all connections of the server",
					"On the server, run ALTER ROLE "+auditRole+" CONNECTION LIMIT 20")
			}
		}
		return nil
	}, "{"+strings.ReplaceAll(credentials, " ", "")+"}")
}

// CheckLock reports whether a transaction keeps all others from writing. It skips a server that takes no writes,
// which checkServer reports.
func (s *Store) CheckLock(ctx context.Context, report store.Report) (locked bool) {
	var takesNone int64
	_ = s.Look(ctx, func(c *store.Conn) (err error) {
		takesNone, err = c.Number(`SELECT count(*)
			WHERE pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'`)
		return err
	})
	if takesNone > 0 {
		return false
	}
	var who []string
	for range 2 { // once more if no holder is found: the server may only have been slow
		if !store.IsLocked(ctx, s.Write, report) {
			return false
		}
		_ = s.Look(ctx, func(c *store.Conn) (err error) {
			who, err = check.Writing(c)
			return err
		})
		if len(who) > 0 {
			break
		}
	}
	says := "no program could write to the database for " + orchestrator.FormatDuration(store.LockPatience)
	if len(who) > 0 {
		says += " because of a lock held by " + strings.Join(who, " or ")
	}
	report("lock", store.Problem, says,
		"Wait until the transaction that has the lock ends, or end its process with SELECT pg_terminate_backend(PID). The server then undoes the uncommitted changes")
	return true
}

// LockedBy names the sessions of other programs that may have locked rows of messages.
func (s *Store) LockedBy(c *store.Conn) ([]string, error) { return check.LockedBy(c) }
