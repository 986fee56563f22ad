package operations

import (
	"context"

	"mailroom/commands"
)

// CheckpointParams say how far to go.
type CheckpointParams struct {
	Truncate bool `json:"truncate,omitempty" desc:"empty the write-ahead log even if it is smaller than the setting wal.limit"`
}

// CheckpointResult tells the sizes of the write-ahead log in bytes.
type CheckpointResult struct {
	WALBefore int64 `json:"wal_bytes_before"`
	WALAfter  int64 `json:"wal_bytes_after"`
	Complete  bool  `json:"complete"` // false: somebody was in the way; the next one goes on
}

var checkpointCommand = commands.Define(vocabulary, "checkpoint", checkpoint)

func checkpoint(ctx context.Context, env commands.Env, p CheckpointParams) (CheckpointResult, error) {
	c, err := env.Ledger.Checkpoint(ctx, p.Truncate)
	return CheckpointResult(c), err
}
