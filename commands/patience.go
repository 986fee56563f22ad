package commands

import (
	"context"
	"time"
)

type patienceKey struct{}

// WithPatience returns a context whose commands wait for at most that long: what carries their answers gives up on longer
// ones.
func WithPatience(ctx context.Context, most time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, most)
}

// Patience is how long a command may wait that was asked to wait for a time.
func Patience(ctx context.Context, asked time.Duration) time.Duration {
	if most, ok := ctx.Value(patienceKey{}).(time.Duration); ok {
		return min(asked, most)
	}
	return asked
}
