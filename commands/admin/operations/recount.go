package operations

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/traffic"
)

// RecountResult lists the counts that were wrong.
type RecountResult struct {
	Corrected []string `json:"corrected"`
}

var recountCommand = commands.Define(vocabulary, "recount", recount)

func recount(ctx context.Context, env commands.Env, _ struct{}) (RecountResult, error) {
	r := RecountResult{Corrected: []string{}}
	err := env.Ledger.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		wrong, err := ledger.Miscounted(t.Conn)
		if err != nil {
			return err
		}
		r.Corrected = append([]string{}, wrong...)
		return ledger.Recount(t)
	})
	if err == nil {
		err = traffic.Recount(ctx, env.Ledger)
	}
	return r, err
}

// Text writes each count that was wrong, and by how much.
func (r RecountResult) Text(w *terminal.Text) {
	if len(r.Corrected) == 0 {
		w.Printf("All counts that `mailroom status` shows were correct.\n")
	}
	for _, c := range r.Corrected {
		w.Printf("corrected %s\n", c)
	}
	w.Printf("Recalculated the `mailroom stats` numbers from the trace.\n")
}
