package operations

import (
	"context"

	"mailroom/commands"
)

// CheckpointParams holds how much of the write-ahead log to remove.
type CheckpointParams struct {
	Truncate bool `json:"truncate,omitempty" desc:"empty the write-ahead log even if it is smaller than the setting wal.limit"`
}

// CheckpointResult holds the sizes of the write-ahead log in bytes.
type CheckpointResult struct {
	WALBefore int64 `json:"wal_bytes_before"`
	WALAfter  int64 `json:"wal_bytes_after"`
	Complete  bool  `json:"complete"` // false: another connection prevented it; the next one continues
}

var checkpointCommand = commands.Define(vocabulary, "checkpoint", checkpoint)

func checkpoint(ctx context.Context, env commands.Env, p CheckpointParams) (CheckpointResult, error) {
	c, err := env.Ledger.Checkpoint(ctx, p.Truncate)
	return CheckpointResult(c), err
}
