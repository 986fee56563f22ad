package admin

import (
	"context"

	"mailroom/commands"
)

// RestoreParams name a backup.
type RestoreParams struct {
	File  string `json:"file" desc:"backup to restore" check:"min=1,max=4096" arg:"1"`
	Force bool   `json:"force,omitempty" desc:"even if undelivered messages are there"`
}

// RestoreResult says what is there now, how many tokens and phones of the backup are revoked, and where that is which was
// there before.
type RestoreResult struct {
	Messages int64 `json:"messages"`
	Revoked  int64 `json:"tokens_revoked"`
	Devices  int64 `json:"devices_revoked"`
	// Untrusted is why the database does nothing outside of itself until it is trusted.
	Untrusted string `json:"untrusted,omitempty"`
	Previous  string `json:"previous,omitempty"`
}

var restoreCommand = commands.Define(vocabulary, "restore", restore).With(commands.Traits{HereOnly: true, MakesOne: true, Confirm: "This puts the messages of {file} in the place of those that are here."})

// restore is one transaction: other processes need not be stopped.
func restore(ctx context.Context, env commands.Env, p RestoreParams) (RestoreResult, error) {
	r, err := env.Ledger.Restore(ctx, p.File, p.Force)
	return RestoreResult{Messages: r.Messages, Revoked: r.Ended["tokens"], Devices: r.Ended["devices"], Untrusted: r.Untrusted, Previous: r.Previous}, err
}
