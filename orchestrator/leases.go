package orchestrator

import "time"

// maxLease is the longest lease that can be given: the longest delivery timeout and its grace.
const maxLease = time.Hour + leaseGrace

// leaseGrace is how much longer than the delivery timeout a lease lasts, so that the worker itself is the first to call
// an attempt too long.
const leaseGrace = 30 * time.Second

// usualLease is how long a lease on a message to an agent lasts unless the run says otherwise; nil is an agent that nobody knows.
func (conf *config) usualLease(agent *Agent) time.Duration {
	timeout := conf.settings.DeliveryTimeout
	if agent != nil {
		timeout = agent.timeout(&conf.settings)
	}
	return min(max(timeout, time.Second), maxLease-leaseGrace) + leaseGrace // a row of agents may be written by hand
}
