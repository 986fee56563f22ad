package web

import (
	"net/http"

	"golang.org/x/time/rate"
)

// What the tests need to see, which are of a package of their own, since package mcp imports this one.

// Bounds are what clients may ask.
type Bounds = bounds

// UsualBounds are those of a daemon.
var UsualBounds = usualBounds

// The bounds that tests go up to.
const (
	MaxBodies       = maxBodies
	SmallBody       = smallBody
	StreamsPerToken = streamsPerToken
)

// Within returns the options with bounds of a test's own.
func (o Options) Within(b Bounds) Options {
	o.bounds = b
	return o
}

// UnderWay is how many requests are.
func (w *Server) UnderWay() int { return len(w.slots) }

// LimitFailures says how many requests without a valid token may come per second.
func (w *Server) LimitFailures(perSecond rate.Limit) { w.failures.SetLimit(perSecond) }

// HoldBodies takes so many bytes of the memory for large bodies, and reports whether they were there. Call release.
func (w *Server) HoldBodies(bytes int64) (release func(), ok bool) {
	return func() { w.bodies.Release(bytes) }, w.bodies.TryAcquire(bytes)
}

// Handler is what answers requests.
func (w *Server) Handler() http.Handler { return w.handler }

// LimitCodes says how many attempts to log in may come per second.
func (w *Server) LimitCodes(perSecond rate.Limit) { w.codes.SetLimit(perSecond) }
