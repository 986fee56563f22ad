package postgres

import (
	"context"

	"mailroom/orchestrator/store"
)

// checkPooler reports whether a pooler is in use, how it assigns connections, and whether there is a way past it.
func (s *Store) checkPooler(_ *store.Conn, report store.Report) error {
	pooled, past := s.pooled.Load(), s.direct != s.config
	if !pooled && !past {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkPatience)
	defer cancel()
	says := "Mailroom connects to the server without a pooler"
	if pooled {
		mode, err := poolerMode(s, ctx)
		if err != nil {
			return err
		}
		says = "Mailroom connects to the server through a pooler (" + mode + " mode)"
	}
	if !past {
		report("pooler", store.Note,
			says+", which does not forward notifications, so Mailroom checks for new messages four times a second", namePast)
		return nil
	}
	c, _, err := s.connectPast(ctx, s.direct)
	if err == errAstray {
		report("pooler", store.Problem, says+"; "+errAstray.Message+", so Mailroom checks for new messages four times a second",
			namePast)
		return nil
	}
	if err != nil {
		report("pooler", store.Problem, says+"; cannot reach the server at the address in `direct`: "+
			s.Explain(err).Error(), namePast)
		return nil
	}
	defer c.Close()
	if c.Settings != "" {
		report("pooler", store.Problem,
			says+"; the address in `direct` is also the address of a pooler, so Mailroom checks for new messages four times a second", namePast)
		return nil
	}
	report("pooler", store.Fine, says+"; processes notify each other through the address in `direct`", "")
	return nil
}

// poolerMode returns "transaction" or "session". In transaction mode, two connections that are open at the same time
// sooner or later use the same server process; in session mode they never do.
func poolerMode(s *Store, ctx context.Context) (mode string, err error) {
	one, _, err := s.connect(ctx, s.config)
	if err != nil {
		return "", err
	}
	defer one.Close()
	other, _, err := s.connect(ctx, s.config)
	if err != nil {
		return "", err
	}
	defer other.Close()
	seen := map[string]*conn{}
	for range 10 {
		for _, c := range []*conn{one, other} {
			results, err := c.Ask(ctx, `SELECT pg_backend_pid()`)
			if err != nil {
				return "", err
			}
			pid := string(results[0].Rows[0][0])
			if before := seen[pid]; before != nil && before != c {
				return "transaction", nil
			}
			seen[pid] = c
		}
	}
	return "session", nil
}
