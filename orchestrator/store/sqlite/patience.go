package sqlite

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// patience is how the engine waits for a lock that another program holds: jittered, growing from 1 ms to 50 ms, until
// a certain time.
func patience(ctx context.Context, until time.Time) backoff.BackOffContext {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Millisecond),
		backoff.WithMaxInterval(50*time.Millisecond),
		backoff.WithMaxElapsedTime(max(time.Until(until), time.Nanosecond)), // 0 would be for ever
	)
	return backoff.WithContext(b, ctx)
}

// retryable keeps a busy error for another try and ends on every other.
func retryable(err error) error {
	if err == nil || isBusy(err) {
		return err
	}
	return backoff.Permanent(err)
}
