package web

import (
	"net/http"

	"golang.org/x/time/rate"
)

// Exports for the tests, which are in a package of their own because package mcp imports this one.

// Bounds exports bounds.
type Bounds = bounds

// UsualBounds are the bounds of a daemon.
var UsualBounds = usualBounds

// Limits that the tests reach.
const (
	MaxBodies       = maxBodies
	SmallBody       = smallBody
	StreamsPerToken = streamsPerToken
)

// Within returns the options with the bounds of a test.
func (o Options) Within(b Bounds) Options {
	o.bounds = b
	return o
}

// UnderWay returns the number of running requests.
func (w *Server) UnderWay() int { return len(w.slots) }

// LimitFailures sets the permitted rate of requests without a valid token, per second.
func (w *Server) LimitFailures(perSecond rate.Limit) { w.failures.SetLimit(perSecond) }

// HoldBodies reserves memory for large bodies and reports whether it was available. The caller must call release.
func (w *Server) HoldBodies(bytes int64) (release func(), ok bool) {
	return func() { w.bodies.Release(bytes) }, w.bodies.TryAcquire(bytes)
}

// Handler returns the handler of all requests.
func (w *Server) Handler() http.Handler { return w.handler }

// LimitCodes sets the permitted rate of login attempts, per second.
func (w *Server) LimitCodes(perSecond rate.Limit) { w.codes.SetLimit(perSecond) }
