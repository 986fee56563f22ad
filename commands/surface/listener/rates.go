package listener

import (
	"sync"

	"golang.org/x/time/rate"
)

// Rates limits the rate and the number of concurrent requests of each client. It is only for authenticated clients,
// so that the number of entries is limited. It is safe for concurrent use.
type Rates struct {
	PerSecond int // bursts may be twice as large

	mu       sync.Mutex
	limits   map[string]*rate.Limiter
	underWay map[string]int
}

// Allow counts a request of a client and reports whether it is within the rate.
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

// Enter counts a request that Allow has permitted and reports true, unless most requests are already running. The
// caller must call Leave when the request ends.
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

// Leave counts the end of a request that Enter has permitted.
func (r *Rates) Leave(client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay[client]--
}
