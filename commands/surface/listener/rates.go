package listener

import (
	"sync"

	"golang.org/x/time/rate"
)

// Rates bounds how often each client may ask, and how much at once. Only clients that showed who they are come here, so
// that there are as many entries as clients. It is safe for concurrent use.
type Rates struct {
	PerSecond int // twice as many may come at once

	mu       sync.Mutex
	limits   map[string]*rate.Limiter
	underWay map[string]int
}

// Allow counts a request of a client, and reports whether it may come now.
func (r *Rates) Allow(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limits == nil {
		r.limits = map[string]*rate.Limiter{}
	}
	if r.limits[client] == nil {
		r.limits[client] = rate.NewLimiter(rate.Limit(r.PerSecond), 2*r.PerSecond)
	}
	return r.limits[client].Allow()
}

// Enter counts a request that Allow has let in, unless there are so many under way. Call Leave at its end.
func (r *Rates) Enter(client string, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underWay[client] >= most {
		return false
	}
	if r.underWay == nil {
		r.underWay = map[string]int{}
	}
	r.underWay[client]++
	return true
}

// Leave counts the end of a request that Enter has let in.
func (r *Rates) Leave(client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay[client]--
}
