package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// measureSends lets n senders of this process send, each one message after the other, for three seconds.
func measureSends(ctx context.Context, env Env, n int, send func(sender int) error) (Measures, error) {
	if err := send(0); err != nil { // opens what is opened late
		return nil, err
	}
	counts, errs := make([]int, n), make([]error, n)
	window := scaledTime(env, 3*time.Second, 300*time.Millisecond)
	began := time.Now()
	var senders sync.WaitGroup
	for i := range n {
		senders.Go(func() {
			for time.Since(began) < window && errs[i] == nil && ctx.Err() == nil {
				if errs[i] = send(i); errs[i] == nil {
					counts[i]++
				}
			}
		})
	}
	senders.Wait()
	took := time.Since(began)
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return Measures{"rate_per_s": float64(sum) / took.Seconds()}, errors.Join(errs...)
}
