package operations

import (
	"context"

	"mailroom/commands"
)

// BackupParams holds where to write the copy.
type BackupParams struct {
	File      string `json:"file" desc:"file to write" check:"min=1,max=4096" arg:"1"`
	Overwrite bool   `json:"overwrite,omitempty" desc:"replace the file if it exists"`
}

// BackupResult describes the copy.
type BackupResult struct {
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	Messages int64  `json:"messages"`
}

var backupCommand = commands.Define(vocabulary, "backup", backup).With(commands.Traits{HereOnly: true})

// backup copies the database. Other programs may send meanwhile; the copy is one consistent state.
func backup(ctx context.Context, env commands.Env, p BackupParams) (BackupResult, error) {
	b, err := env.Ledger.BackupTo(ctx, p.File, p.Overwrite)
	return BackupResult(b), err
}
