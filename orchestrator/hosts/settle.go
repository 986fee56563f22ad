package hosts

import (
	"context"
	"slices"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// Settle decides about messages, identified by their marks, that were shown to a session. If seen is true, the
// model has seen them and they are read. Otherwise the model will not see them and they are unread again. Messages
// that are already settled stay as they are. Errors: those of the database.
func Settle(ctx context.Context, l *ledger.Ledger, agent, session string, marks []string, seen bool) error {
	return l.Write(ctx, store.Of(agent), func(t *ledger.Tx) error {
		leases, err := messages.SessionLeases(t.Conn, agent, session)
		if err != nil {
			return err
		}
		key, err := readMarkKey(t.Conn)
		if err != nil {
			return err
		}
		for i := range leases {
			lease := &leases[i]
			mark, err := markOf(t.Conn, key, lease)
			switch {
			case err != nil || mark == "" || !slices.Contains(marks, mark):
			case seen:
				err = messages.ConfirmShown(t, lease, "seen by the model in session "+session)
			default:
				err = messages.GiveBack(t, lease, "the model in session "+session+" has not seen it; unread again")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
