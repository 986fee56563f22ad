package letters

import (
	"context"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Problem is a file or a folder with which `ralph watch` cannot do its work, and why.
type Problem struct {
	Path        string `json:"path"`
	Fingerprint string `json:"-"` // by which it is known that the file has not changed since
	Problem     string `json:"problem"`
	FoundAt     string `json:"found_at"`
}

// Problems returns the problems that are recorded, sorted by path.
func Problems(ctx context.Context, l *ledger.Ledger) ([]Problem, error) {
	return ledger.Ask(ctx, l, func(c *store.Conn) ([]Problem, error) {
		return store.List(c, func(row store.Row) Problem { return Problem{row.Text(0), row.Text(1), row.Text(2), row.Text(3)} },
			`SELECT path, fingerprint, problem, found_at FROM bridge_problems ORDER BY path`)
	})
}

// NoteProblem records a problem, and reports whether it is new. Several processes may find the same one; the one for
// which it is new tells of it.
func NoteProblem(ctx context.Context, l *ledger.Ledger, p Problem) (news bool, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		before, found, err := t.Text(`SELECT fingerprint FROM bridge_problems WHERE path = ?`, p.Path)
		if err != nil {
			return err
		}
		if news = !found || before != p.Fingerprint; !news {
			return t.Run(`UPDATE bridge_problems SET problem = ?1 WHERE path = ?2 AND problem <> ?1`, p.Problem, p.Path)
		}
		return t.Run(`
			INSERT INTO bridge_problems (path, fingerprint, problem, found_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (path) DO UPDATE SET fingerprint = excluded.fingerprint, problem = excluded.problem, found_at = excluded.found_at`,
			p.Path, p.Fingerprint, p.Problem, t.Now)
	})
	return news, err
}

// ForgetProblems deletes the records of problems with these paths.
func ForgetProblems(ctx context.Context, l *ledger.Ledger, paths []string) error {
	return l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		for _, path := range paths {
			if err := t.Run(`DELETE FROM bridge_problems WHERE path = ?`, path); err != nil {
				return err
			}
		}
		return nil
	})
}
