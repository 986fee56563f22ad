package orchestrator

import "context"

// Ready reports whether the database can be read and written now: it takes the write lock, and looks at the settings and
// at the last message. Once this process has met a damaged page, it is not ready before the whole file is in order again.
// Errors: busy, unavailable.
func (r *Router) Ready(ctx context.Context) error {
	if err := r.stillDamaged(); err != nil {
		return err
	}
	return r.write(ctx, func(t *tx) error {
		if _, err := t.number(`SELECT count(*) FROM settings`); err != nil {
			return err
		}
		_, err := t.number(`SELECT coalesce(max(seq), 0) FROM agent_message`)
		return err
	})
}

// noteDamage remembers an error that says that the file is damaged, and returns it.
func (r *Router) noteDamage(err error) error {
	if isDamaged(err) {
		r.damage.Store(&err)
	}
	return err
}

// stillDamaged returns the damage that was met, unless the file has been mended since. It reads the whole file, but only
// after damage was met.
func (r *Router) stillDamaged() error {
	met := r.damage.Load()
	if met == nil {
		return nil
	}
	var verdict string
	err := r.look(func(c *conn) (err error) {
		verdict, _, err = c.text(`PRAGMA quick_check(1)`)
		return err
	})
	if err != nil || verdict != "ok" {
		return *met
	}
	r.damage.CompareAndSwap(met, nil)
	return nil
}
